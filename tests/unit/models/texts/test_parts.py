"""Parts of trajectories: their own, of released text, or rendered."""

from __future__ import annotations

import pytest

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.parts import TextMarkup, given_markup, trajectory_parts
from sweet_rl.models.texts.released_texts import CHATML, LLAMA3, Markup, parts_from_text
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support import released_files
from tests.support.chat_families import small_tokenizer

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


@pytest.mark.parametrize(
    ("family", "eos", "markup"),
    [("chatml", "<|im_end|>", released_files.LLAMA), ("llama3", "<|eot_id|>", released_files.CHATML)],
)
def test_a_model_of_another_family_gets_released_dialogues_in_its_own_markup(family, eos, markup):
    row = released_files.trajectories(markup)[1]
    said = [message["output"] for message in row["dialogue_history"] if message["role"] == "assistant"]
    assert said[1].endswith(markup.end)
    chat = ChatFormat(small_tokenizer(family))
    parts = trajectory_parts(Trajectory.from_dict(row), TextMarkup(chat))
    assert trained(parts) == [said[0] + eos, said[1].removesuffix(markup.end) + eos]
    assert markup.end not in text(parts) and chat.reply_header in text(parts)
    with pytest.raises(UserError, match="--response_template .* is not of the family of"):
        trajectory_parts(Trajectory.from_dict(row), TextMarkup(chat, markup.agent))


def test_a_reply_that_was_cut_keeps_what_looks_like_the_end_of_a_turn():
    cut = trajectory()
    cut.dialogue_history[1] = {"role": "assistant", "content": "type <|eot_id|>", "finish_reason": "length"}
    chat = ChatFormat(small_tokenizer("chatml"))
    assert trained(trajectory_parts(cut, TextMarkup(chat))) == ["type <|eot_id|>"]
    cut.dialogue_history[1]["finish_reason"] = "stop"
    assert trained(trajectory_parts(cut, TextMarkup(chat))) == ["type <|im_end|>"]


def test_what_ends_a_turn_is_read_from_the_family_of_the_header_that_is_given():
    llama3, chatml = (ChatFormat(small_tokenizer(family)) for family in ("llama3", "chatml"))
    for chat in (llama3, None):
        assert given_markup(LLAMA3.header, chat) == LLAMA3
    for chat in (chatml, None):
        assert given_markup(f"{CHATML.header}\n", chat) == Markup(f"{CHATML.header}\n", "<|im_end|>")
    assert given_markup("[agent]", llama3) == Markup("[agent]", "<|eot_id|>", "<|begin_of_text|>")
    assert given_markup(CHATML.header, llama3, "[end]", "") == Markup(CHATML.header, "[end]")
    for header, chat in ((LLAMA3.header, chatml), (CHATML.header, llama3)):
        with pytest.raises(UserError, match="is not of the family of .* whose turns end with"):
            given_markup(header, chat)


def test_the_reference_solution_of_a_released_pair_stands_after_the_one_bos():
    parts = parts_from_text("c is X.<s><s>q[H]yes</s>", Markup("[H]", "</s>", "<s>"))
    assert [part["text"] for part in parts] == ["<s>", "c is X.", "q[H]", "yes</s>"]
    assert parts[0]["bos"] and parts[1]["plain"]
