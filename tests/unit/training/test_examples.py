"""Texts beyond --max_len, and the split by task."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.candidate_texts import prompt_parts
from sweet_rl.errors import UserError
from sweet_rl.records import PreferencePair, TurnCandidates
from sweet_rl.training.examples import (
    DROPPED,
    EQUAL,
    SHORTENED,
    encode_pairs,
    split_by_task,
    turns_to_leave_out,
    without_oldest_turns,
)
from sweet_rl.training.settings import DataSettings
from tests.support.tiny_models import EOS, save_tiny_chat_model


@pytest.fixture(scope="module")
def chat(tmp_path_factory) -> ChatFormat:
    return ChatFormat.from_pretrained(save_tiny_chat_model(tmp_path_factory.mktemp("model")))


def conversation(chat: ChatFormat, *replies: str, cut: bool = False) -> list[dict]:
    """A task, the agent's replies, and a human who answers each but the last with `ok`."""
    messages = [{"role": "user", "content": "task"}]
    for reply in replies:
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": "ok"}]
    if cut:
        messages[-2]["finish_reason"] = "length"
    return chat.dialogue(messages[:-1])


def text_of(chat: ChatFormat, text) -> str:
    return chat.tokenizer.decode(text.ids.tolist())


def test_the_oldest_turns_go_with_the_replies_to_them_and_the_markup_stays_whole(chat):
    parts = conversation(chat, "first", "second", "third")
    for count, left in enumerate((("first", "second", "third"), ("second", "third"), ("third",))):
        assert without_oldest_turns(parts, count) == conversation(chat, *left)
    with pytest.raises(ValueError, match="the last one stays"):
        without_oldest_turns(parts, 3)


def test_as_few_turns_go_as_must(chat):
    parts = conversation(chat, "first", "second", "third")

    def length(some):
        return len(chat.encode(some)[0])

    whole, two = length(parts), length(without_oldest_turns(parts, 1))
    assert turns_to_leave_out(parts, length, whole) == 0
    assert turns_to_leave_out(parts, length, whole - 1) == 1
    assert turns_to_leave_out(parts, length, two) == 1
    assert turns_to_leave_out(parts, length, 5) is None


def test_a_dialogue_loses_its_oldest_turns_never_its_answer_and_no_eos_is_forged(chat):
    long = conversation(chat, "a" * 50, "the answer", cut=True)
    pairs = [PreferencePair(long, conversation(chat, "short"), id="p")]
    most = len(chat.encode(long)[0]) - 1
    examples = encode_pairs(pairs, chat, DataSettings(max_len=most, too_long="oldest_turns"))
    assert examples.counts == {SHORTENED: 1}
    chosen, rejected = (text_of(chat, examples.texts[i]) for i in examples.pairs[0])
    assert chosen == "<|bos|><|user|>task<|end|><|assistant|>the answer"
    assert rejected == "<|bos|><|user|>task<|end|><|assistant|>short<|end|>"
    with pytest.raises(UserError, match="none of its 1 pairs"):
        encode_pairs(pairs, chat, DataSettings(max_len=most))


def test_turn_pairs_lose_the_same_turns_of_their_history(chat):
    history = [
        {"role": "user", "content": "task"}, {"role": "assistant", "content": "old" * 9},
        {"role": "user", "content": "yes"}, {"role": "assistant", "content": "newer"},
        {"role": "user", "content": "no"},
    ]  # fmt: skip
    prompt = prompt_parts(TurnCandidates(input=chat.prompt(history), older_output="", additional_outputs=["x"]))
    pair = PreferencePair(
        [*prompt, {"text": "y" * 40 + EOS, "train": True}], [*prompt, {"text": "n" + EOS, "train": True}], id="p"
    )
    examples = encode_pairs([pair], chat, DataSettings(max_len=80, too_long="oldest_turns"))
    chosen, rejected = (examples.texts[i] for i in examples.pairs[0])
    assert chosen.prompt == rejected.prompt
    assert text_of(chat, rejected) == (
        "<|bos|><|user|>task<|end|><|assistant|>newer<|end|><|user|>no<|end|><|assistant|>n<|end|>"
    )


def test_what_cannot_be_shortened_enough_and_what_is_equal_is_left_out_and_counted(chat):
    good = PreferencePair(conversation(chat, "yes"), conversation(chat, "no"), id="good", task_id="t")
    same = PreferencePair(conversation(chat, "yes"), conversation(chat, "yes"), id="same")
    long = PreferencePair(conversation(chat, "z" * 200), conversation(chat, "no"), id="long")
    examples = encode_pairs([good, same, long], chat, DataSettings(max_len=60, too_long="oldest_turns"))
    assert examples.counts == {DROPPED: 1, EQUAL: 1} and len(examples) == 1 and examples.tasks == ["t"]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 8), min_size=2, max_size=60), st.floats(0.01, 0.99), st.integers(0, 3))
def test_siblings_never_stand_on_both_sides(tasks, fraction, seed):
    names = [f"t{task}" for task in tasks]
    if len(set(names)) < 2:
        return
    train, held_out = split_by_task(names, fraction, seed)
    assert sorted([*train, *held_out]) == list(range(len(names)))
    assert not {names[i] for i in train} & {names[i] for i in held_out}
    assert len(train) and len(held_out)
    again = split_by_task(names, fraction, seed)
    assert np.array_equal(train, again[0])


def test_no_fraction_holds_out_nothing_and_an_unknown_task_is_refused():
    train, held_out = split_by_task([None, None], 0.0, 0)
    assert train.tolist() == [0, 1] and len(held_out) == 0
    with pytest.raises(UserError, match="example 2 has no 'task_id'"):
        split_by_task(["a", None], 0.5, 0)
    with pytest.raises(UserError, match="one task"):
        split_by_task(["a", "a"], 0.5, 0)
