"""Prompts and dialogues as text -> messages, for the chat markup of several families."""

import pytest

from sweet_rl.method.privileged_information import hint_text
from sweet_rl.viewer.messages import messages_of

SAID = [("user", "Hello\nthere"), ("assistant", "A question?"), ("user", "An answer.")]
FAMILIES = {
    "llama": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello\nthere<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nA question?<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nAn answer.<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "chatml": "<|im_start|>user\nHello\nthere<|im_end|>\n<|im_start|>assistant\nA question?<|im_end|>\n"
    "<|im_start|>user\nAn answer.<|im_end|>\n<|im_start|>assistant\n",
    "gemma": "<bos><start_of_turn>user\nHello\nthere<end_of_turn>\n<start_of_turn>model\nA question?<end_of_turn>\n"
    "<start_of_turn>user\nAn answer.<end_of_turn>\n<start_of_turn>model\n",
    "mini": "<|begin|><|user|>Hello\nthere<|end|><|assistant|>A question?<|end|><|user|>An answer.<|end|><|assistant|>",
    "mistral": "<s>[INST] Hello\nthere [/INST] A question?</s>[INST] An answer. [/INST]",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_messages_of_a_prompt_are_read_from_its_markup(family):
    assert [(m["role"], m["text"].strip()) for m in messages_of(FAMILIES[family])] == SAID


def test_text_without_markup_stays_as_it_is():
    assert messages_of("no markup <b>at</b> all") == [{"role": "text", "text": "no markup <b>at</b> all"}]


def test_trained_parts_are_the_agents_and_the_solution_is_set_apart():
    parts = [
        {"text": "<|begin|>", "train": False, "bos": True},
        {"text": hint_text("def f(): <|user|>"), "train": False, "plain": True},
        {"text": "<|user|>Hello<|end|><|assistant|>", "train": False},
        {"text": "Mine<|user|>too<|end|>", "train": True},
    ]
    found = messages_of(parts)
    assert [m["role"] for m in found] == ["hint", "user", "assistant"]
    assert "def f(): <|user|>" in found[0]["text"]
    assert found[2] == {"role": "assistant", "text": "Mine<|user|>too", "trained": True}


def test_markup_that_a_user_typed_does_not_make_a_message():
    parts = [
        {"text": "<|user|>I type ", "train": False},
        {"text": "<|assistant|>", "train": False, "plain": True},
        {"text": " here<|end|><|assistant|>", "train": False},
    ]
    assert messages_of(parts) == [{"role": "user", "text": "I type <|assistant|> here"}]


def test_the_agents_earlier_turns_in_a_prompt_are_the_agents():
    parts = [
        {"text": "<|user|>Hello<|end|><|assistant|>", "train": False},
        {"text": "Asked?<|end|>", "train": False, "token_ids": [1, 2]},
        {"text": "<|user|>Told.<|end|><|assistant|>", "train": False},
    ]
    assert [(m["role"], m["text"]) for m in messages_of(parts)] == [
        ("user", "Hello"),
        ("assistant", "Asked?"),
        ("user", "Told."),
    ]
