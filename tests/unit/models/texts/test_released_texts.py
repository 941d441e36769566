"""The markup of texts: recognised, split where texts that begin alike part."""

from __future__ import annotations

import re

import pytest

from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.texts.released_texts import CHATML, LLAMA3, Markup, last_reply_parts, parts_from_text, recognised
from sweet_rl.runs.errors import UserError
from tests.support.chat_families import FAMILIES, small_tokenizer

HEADERS = {
    "llama3": "<|start_header_id|>assistant<|end_header_id|>", "chatml": "<|im_start|>assistant",
    "smollm2": "<|im_start|>assistant", "qwen3": "<|im_start|>assistant", "gemma": "<start_of_turn>model",
    "llama31": "<|start_header_id|>assistant<|end_header_id|>", "qwen3_thinking": "<|im_start|>assistant",
    "gemma3": "<start_of_turn>model", "mistral": "[/INST]", "llama2": "[/INST]", "phi3": "<|assistant|>",
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_the_header_of_a_reply_is_read_from_the_chat_template(family):
    assert ChatFormat(small_tokenizer(family)).reply_header == HEADERS[family]


def markup_of(chat: ChatFormat) -> Markup:
    return Markup(chat.reply_header, chat.eos_text, chat.bos_text)


def test_llama_3_and_chatml_are_recognised_without_a_model_and_else_only_the_model_s_own():
    llama = f"<|begin_of_text|>{LLAMA3.header}\n\n"
    chatml = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert (recognised(llama), recognised(chatml), recognised("[INST] hi [/INST]")) == (LLAMA3, CHATML, None)
    chat = ChatFormat(small_tokenizer("chatml"))
    assert recognised(chatml, markup_of(chat)) == Markup("<|im_start|>assistant", "<|im_end|>", "")
    assert recognised(llama, markup_of(chat)) is None


def test_the_agent_s_turns_in_the_shared_beginning_are_marked_and_not_trained():
    chat = ChatFormat(small_tokenizer("llama3"))
    beginning = f"<|begin_of_text|>task<|eot_id|>{LLAMA3.header}\n\nwhy?<|eot_id|>so<|eot_id|>{LLAMA3.header}\n\n"
    for parts, reply in zip(last_reply_parts([f"{beginning}yes<|eot_id|>", f"{beginning}y"], markup_of(chat), "here"),
                            ["yes<|eot_id|>", "y"], strict=True):  # fmt: skip
        assert "".join(part["text"] for part in parts) == beginning + reply
        assert [part["text"] for part in parts if part["train"]] == [reply]
        assert [part["text"] for part in parts if part.get("turn")] == ["why?<|eot_id|>"]
        assert parts[0] == {"text": "<|begin_of_text|>", "train": False, "bos": True}
    with pytest.raises(UserError, match="--response_template"):
        last_reply_parts(["a", f"b{LLAMA3.header}"], markup_of(chat), "here")


def test_turns_of_which_none_ends_are_refused_because_the_human_would_be_trained():
    turns = "[user]q[end][agent]why?[end][user]so[end][agent]yes"
    with pytest.raises(UserError, match=r"has '\[agent\]' several times and never '</s>'.*--eos_text"):
        parts_from_text(turns, Markup("[agent]", "</s>"))
    for text, replies in ((turns, ["why?[end]", "yes"]), ("[user]q[end][agent]yes", ["yes"])):
        parts = parts_from_text(text, Markup("[agent]", "[end]"))
        assert [part["text"] for part in parts if part["train"]] == replies


@pytest.mark.parametrize("family", FAMILIES)
def test_training_reads_the_same_messages_from_the_text_of_a_dialogue(family):
    chat = ChatFormat(small_tokenizer(family))
    said = [("user", "late fee?"), ("assistant", "How much is it\nper day?"), ("user", "5."), ("assistant", "Fine.")]
    made = chat.dialogue([{"role": role, "content": text} for role, text in said])
    text = parts_text(made)

    def bare(text: str) -> str:  # Qwen 3 puts empty thinking, or its beginning, before a reply
        return re.sub(r"<think>\s*(</think>)?", "", text).strip()

    read = parts_from_text(text, Markup(chat.reply_header, chat.eos_text, chat.bos_text))
    assert parts_text(read) == text
    assert [bare(part["text"]) for part in read if part["train"]] == [bare(p["text"]) for p in made if p["train"]]
