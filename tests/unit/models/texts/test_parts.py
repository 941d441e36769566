"""Parts of trajectories: their own, of released text, or rendered."""

from __future__ import annotations

import pytest

from sweet_rl.models.texts.parts import TextMarkup, trajectory_parts
from sweet_rl.models.texts.released_texts import Markup, parts_from_text
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory

PROMPT = "<|bos|><|user|>task<|end|><|assistant|>"


def trajectory(**fields) -> Trajectory:
    history = [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": "done", "input": PROMPT, "output": "done<|end|>"},
        {"role": "user", "content": "after the last turn"},
    ]
    return Trajectory(Task("task", "solution"), history, answer="done", id="one", **fields)


def trained(parts: list[dict]) -> list[str]:
    return [part["text"] for part in parts if part["train"]]


def text(parts: list[dict]) -> str:
    return "".join(part["text"] for part in parts)


def test_parts_of_its_own_come_first(tiny_chat):
    parts = [{"text": "mine", "train": True}]
    assert trajectory_parts(trajectory(parts=parts), TextMarkup(tiny_chat, "<|assistant|>")) == parts


def test_released_text_is_split_by_the_markup_that_opens_and_ends_a_turn(tiny_chat):
    for markup in ({"chat": tiny_chat}, {"eos_text": "<|end|>", "bos_text": "<|bos|>"}):
        parts = trajectory_parts(trajectory(), TextMarkup(response_template="<|assistant|>", **markup))
        assert text(parts) == f"{PROMPT}done<|end|>" and trained(parts) == ["done<|end|>"]
        assert parts[0]["text"] == "<|bos|>" and parts[0]["bos"]
    other = trajectory_parts(trajectory(), TextMarkup(tiny_chat, "<|assistant|>", bos_text=""))
    assert not any(part.get("bos") for part in other)
    with pytest.raises(UserError, match="--eos_text"):
        trajectory_parts(trajectory(), TextMarkup(response_template="<|assistant|>"))


def test_a_dialogue_is_rendered_up_to_the_agents_last_turn(tiny_chat):
    parts = trajectory_parts(trajectory(), TextMarkup(tiny_chat))
    assert text(parts) == f"{PROMPT}done<|end|>" and trained(parts) == ["done<|end|>"]
    with pytest.raises(UserError, match="one carries no parts.*--tokenizer"):
        trajectory_parts(trajectory(), TextMarkup())
    unsaid = trajectory()
    unsaid.dialogue_history[1]["output"] = None
    assert trained(trajectory_parts(unsaid, TextMarkup(tiny_chat, "<|assistant|>"))) == ["done<|end|>"]


def test_the_text_of_a_released_row_is_read_by_the_markup_of_the_model_and_keeps_its_ending(tiny_chat):
    cut = trajectory()
    cut.dialogue_history[1] |= {"content": "other", "output": "done"}
    assert trained(trajectory_parts(cut, TextMarkup(tiny_chat))) == ["done"]
    cut.dialogue_history[1]["finish_reason"] = "stop"  # a row of ours, whose content counts
    assert trained(trajectory_parts(cut, TextMarkup(tiny_chat))) == ["done<|end|>"]


@pytest.mark.parametrize(
    ("opening", "header", "eos"),
    [
        ("<|begin_of_text|>", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
        ("", "<|im_start|>assistant\n", "<|im_end|>"),
    ],
)
def test_llama_3_and_chatml_are_recognised_without_a_tokenizer(opening, header, eos):
    released = trajectory()
    prompt = f"{opening}task{eos}{header}why?{eos}so{eos}{header}"
    released.dialogue_history[1] |= {"input": prompt, "output": "done"}
    parts = trajectory_parts(released, TextMarkup())
    assert text(parts) == f"{prompt}done" and trained(parts) == [f"why?{eos}", "done"]
    assert parts[0].get("bos", False) == bool(opening)


def test_the_reference_solution_of_a_released_pair_stands_after_the_one_bos():
    parts = parts_from_text("c is X.<s><s>q[H]yes</s>", Markup("[H]", "</s>", "<s>"))
    assert [part["text"] for part in parts] == ["<s>", "c is X.", "q[H]", "yes</s>"]
    assert parts[0]["bos"] and parts[1]["plain"]
