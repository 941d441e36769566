"""Parts of trajectories and of released texts: the markup is given or recognised, and the agent's turns are trained."""

from __future__ import annotations

import re

import pytest

from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.texts.released_texts import (
    CHATML,
    LLAMA3,
    Markup,
    TextMarkup,
    given_markup,
    last_reply_parts,
    parts_from_text,
    recognised,
    trajectory_parts,
)
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support import released_files
from tests.support.chat_families import FAMILIES, small_tokenizer

PROMPT = "<|bos|><|user|>task<|end|><|assistant|>"
HEADERS = {
    "llama3": "<|start_header_id|>assistant<|end_header_id|>", "chatml": "<|im_start|>assistant",
    "smollm2": "<|im_start|>assistant", "qwen3": "<|im_start|>assistant", "gemma": "<start_of_turn>model",
    "llama31": "<|start_header_id|>assistant<|end_header_id|>", "qwen3_thinking": "<|im_start|>assistant",
    "gemma3": "<start_of_turn>model", "mistral": "[/INST]", "llama2": "[/INST]", "phi3": "<|assistant|>",
}  # fmt: skip


def trajectory(**fields) -> Trajectory:
    history = [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": "done", "input": PROMPT, "output": "done<|end|>"},
        {"role": "user", "content": "after the last turn"},
    ]
    return Trajectory(Task("task", "solution"), history, answer="done", id="one", **fields)


def trained(parts: list[dict]) -> list[str]:
    return [part["text"] for part in parts if part["train"]]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_replies_of_a_dialogue_are_found_again_in_its_text(family):
    chat = ChatFormat(small_tokenizer(family))
    assert chat.reply_header == HEADERS[family]
    said = [("user", "late fee?"), ("assistant", "How much is it\nper day?"), ("user", "5."), ("assistant", "Fine.")]
    made = chat.dialogue([{"role": role, "content": text} for role, text in said])

    def bare(text: str) -> str:  # Qwen 3 puts empty thinking, or its beginning, before a reply
        return re.sub(r"<think>\s*(</think>)?", "", text).strip()

    read = parts_from_text(parts_text(made), Markup.of(chat))
    assert parts_text(read) == parts_text(made)
    assert [*map(bare, trained(read))] == [*map(bare, trained(made))]


def test_parts_of_its_own_come_first(tiny_chat):
    parts = [{"text": "mine", "train": True}]
    assert trajectory_parts(trajectory(parts=parts), TextMarkup(tiny_chat, "<|assistant|>")) == parts


def test_released_text_is_split_by_the_markup_that_opens_and_ends_a_turn(tiny_chat):
    parts = trajectory_parts(trajectory(), TextMarkup(tiny_chat, "<|assistant|>"))
    assert parts_text(parts) == f"{PROMPT}done<|end|>" and trained(parts) == ["done<|end|>"]
    assert parts[0]["text"] == "<|bos|>" and parts[0]["bos"]
    for given in ({"response_template": "<|assistant|>"}, {}):
        with pytest.raises(UserError, match="--tokenizer"):
            trajectory_parts(trajectory(), TextMarkup(**given))


def test_the_text_of_a_released_row_keeps_its_ending_and_a_row_of_ours_is_rendered(tiny_chat):
    cut = trajectory()
    cut.dialogue_history[1] |= {"content": "other", "output": "done"}
    assert trained(trajectory_parts(cut, TextMarkup(tiny_chat))) == ["done"]
    cut.dialogue_history[1]["finish_reason"] = "stop"
    assert trained(trajectory_parts(cut, TextMarkup(tiny_chat))) == ["done<|end|>"]
    cut.dialogue_history[1]["output"] = None
    assert trained(trajectory_parts(cut, TextMarkup(tiny_chat, "<|assistant|>"))) == ["other<|end|>"]


@pytest.mark.parametrize(
    ("opening", "header", "eos"),
    [("<|begin_of_text|>", LLAMA3.header, "<|eot_id|>"), ("", CHATML.header, "<|im_end|>")],
)
def test_llama_3_and_chatml_are_recognised_without_a_tokenizer(opening, header, eos, tiny_chat):
    released = trajectory()
    prompt = f"{opening}task{eos}{header}\n\nwhy?{eos}so{eos}{header}\n\n"
    released.dialogue_history[1] |= {"input": prompt, "output": "done"}
    parts = trajectory_parts(released, TextMarkup())
    assert parts_text(parts) == f"{prompt}done" and trained(parts) == [f"why?{eos}", "done"]
    assert parts[0].get("bos", False) == bool(opening)
    assert recognised(prompt, Markup.of(tiny_chat)) is None and recognised("[INST] hi [/INST]") is None


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
    assert markup.end not in parts_text(parts) and chat.reply_header in parts_text(parts)


def test_what_ends_a_turn_is_read_from_the_family_of_the_header_that_is_given():
    llama3, chatml = (ChatFormat(small_tokenizer(family)) for family in ("llama3", "chatml"))
    for chat in (llama3, None):
        assert given_markup(LLAMA3.header, chat) == LLAMA3
    for chat in (chatml, None):
        assert given_markup(f"{CHATML.header}\n", chat) == Markup(f"{CHATML.header}\n", "<|im_end|>")
    assert given_markup("[agent]", llama3) == Markup("[agent]", "<|eot_id|>", "<|begin_of_text|>")


def test_the_reference_solution_of_a_released_pair_stands_after_the_one_bos():
    parts = parts_from_text("c is X.<s><s>q[H]yes</s>", Markup("[H]", "</s>", "<s>"))
    assert [part["text"] for part in parts] == ["<s>", "c is X.", "q[H]", "yes</s>"]
    assert parts[0]["bos"] and parts[1]["plain"]


def test_the_agent_s_turns_in_the_shared_beginning_are_marked_and_not_trained():
    beginning = f"<|begin_of_text|>task<|eot_id|>{LLAMA3.header}\n\nwhy?<|eot_id|>so<|eot_id|>{LLAMA3.header}\n\n"
    replies = ["yes<|eot_id|>", "y"]
    for parts, reply in zip(
        last_reply_parts([beginning + reply for reply in replies], LLAMA3, "here"), replies, strict=True
    ):
        assert parts_text(parts) == beginning + reply and trained(parts) == [reply]
        assert [part["text"] for part in parts if part.get("turn")] == ["why?<|eot_id|>"]
        assert parts[0] == {"text": "<|begin_of_text|>", "train": False, "bos": True}
    with pytest.raises(UserError, match="--response_template"):
        last_reply_parts(["a", f"b{LLAMA3.header}"], LLAMA3, "here")


def test_turns_of_which_none_ends_are_refused_because_the_human_would_be_trained():
    turns = "[user]q[end][agent]why?[end][user]so[end][agent]yes"
    with pytest.raises(UserError, match=r"has '\[agent\]' several times and never '</s>'.*--tokenizer"):
        parts_from_text(turns, Markup("[agent]", "</s>"))
    for text, replies in ((turns, ["why?[end]", "yes"]), ("[user]q[end][agent]yes", ["yes"])):
        assert trained(parts_from_text(text, Markup("[agent]", "[end]"))) == replies
    with pytest.raises(UserError, match="--response_template"):
        parts_from_text("hello", Markup("<|assistant|>", "<|end|>"))
