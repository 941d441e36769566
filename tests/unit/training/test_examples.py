"""Encoded examples: what is trained, texts beyond --max_len, and the split by task."""

from __future__ import annotations

import json

import pytest

from sweet_rl.method.privileged_information import with_hint
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, read_records
from sweet_rl.training.examples import (
    DROPPED,
    EMPTY,
    EQUAL,
    NO_EOS,
    _announce,
    encode_pairs,
    encode_replies,
    encode_trajectories,
    successful,
)
from sweet_rl.training.settings import DataSettings
from tests.support.tiny_models import save_tiny_chat_model


@pytest.fixture
def chat(tiny_chat) -> ChatFormat:
    return tiny_chat


BEGINNING = "<|bos|><|user|>q<|end|><|assistant|>why?<|end|><|user|>so<|end|><|assistant|>"


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


def trained(chat: ChatFormat, text) -> str:
    return chat.tokenizer.decode(text.ids[text.targets].tolist())


def test_what_is_too_long_and_what_is_equal_is_left_out_and_counted(chat):
    good = PreferencePair(conversation(chat, "yes"), conversation(chat, "no"), id="good", task_id="t")
    same = PreferencePair(conversation(chat, "yes"), conversation(chat, "yes"), id="same")
    long = PreferencePair(conversation(chat, "z" * 200), conversation(chat, "no"), id="long")
    examples = encode_pairs([good, same, long], chat, DataSettings(max_len=60))
    assert examples.counts == {DROPPED: 1, EQUAL: 1} and len(examples) == 1
    untrained = PreferencePair([{"text": "a", "train": False}], conversation(chat, "no"), id="odd one")
    with pytest.raises(UserError, match="odd one.*chosen"):
        encode_pairs([good, untrained], chat, DataSettings())


def trajectory(number: int, reward: float | None, **fields) -> Trajectory:
    history = [
        {"role": "user", "content": f"task {number}"}, {"role": "assistant", "content": "What is the fee?"},
        {"role": "user", "content": "Two."}, {"role": "assistant", "content": "return 2"},
    ]  # fmt: skip
    task = Task(f"task {number}", "the solution", id=f"t{number}")
    return Trajectory(task, history, answer="return 2", reward=reward, id=f"d{number}", **fields)


def test_sampled_ids_are_trained_as_they_are(chat):
    row = trajectory(1, 1.0, tokenizer=chat.fingerprint)
    row.dialogue_history[1] |= {"token_ids": [70, 71, 72], "finish_reason": "length"}
    row.dialogue_history[3] |= {"token_ids": [80, chat.eos_ids[0]]}
    (text,) = encode_trajectories([row], chat, DataSettings()).texts
    assert text.ids[text.targets].tolist() == [70, 71, 72, 80, chat.eos_ids[0]]


def test_failed_and_ungraded_dialogues_and_low_rewards_are_left_out():
    rows = [trajectory(0, 1.0), trajectory(1, 0.9), trajectory(2, None), trajectory(3, 1.0, ending="failed")]
    assert [t.id for t in successful(rows, 1.0, "t")] == ["d0"]
    assert [t.id for t in successful(rows, 0.5, "t")] == ["d0", "d1"]
    with pytest.raises(UserError, match="best: 1.0"):
        successful(rows, 2.0, "t")
    with pytest.raises(UserError, match="evaluate_code"):
        successful(rows[2:3], 1.0, "t")


def test_a_dialogue_that_is_too_long_is_dropped_and_all_of_them_are_an_error(chat):
    long = trajectory(0, 1.0)
    long.dialogue_history[0]["content"] *= 30
    rows = [long, trajectory(1, 1.0)]
    examples = encode_trajectories(rows, chat, DataSettings(max_len=100))
    assert len(examples) == 1 and examples.counts == {DROPPED: 1}
    with pytest.raises(UserError, match="none of its 2 trajectories"):
        encode_trajectories(rows, chat, DataSettings(max_len=10))


def test_the_hint_stands_before_a_dialogue_and_only_reward_1_is_a_success(chat):
    rows = [trajectory(0, 1.0), trajectory(1, 0.99)]
    examples = encode_trajectories(rows, chat, DataSettings(), hint=with_hint)
    assert all("In light that the final answer is: the solution." in text_of(chat, text) for text in examples.texts)
    assert examples.labels == [1.0, 0.0]
    assert examples.lengths == [len(text) for text in examples.texts]
    (text,) = encode_trajectories(rows[:1], chat, DataSettings()).texts
    assert "In light" not in text_of(chat, text)
    assert trained(chat, text) == "What is the fee?<|end|>return 2<|end|>" and text.turns.max() == 1
    silent = trajectory(0, 1.0)
    del silent.dialogue_history[1:]
    with pytest.raises(UserError, match="d0.*never speaks"):
        encode_trajectories([silent], chat, DataSettings())


def test_equal_texts_of_different_pairs_are_one_text(chat):
    yes, no, maybe = (conversation(chat, reply) for reply in ("yes", "no", "maybe"))
    pairs = [PreferencePair(yes, no, id="a"), PreferencePair(maybe, no, id="b"), PreferencePair(no, yes, id="c")]
    examples = encode_pairs(pairs, chat, DataSettings())
    assert len(examples.texts) == 3 and examples.rows.tolist() == [[0, 1], [2, 1], [1, 0]]
    assert examples.lengths == [max(len(examples.texts[i]) for i in pair) for pair in examples.rows]
    assert len(set(examples.prompts)) == 1


def test_of_strings_that_begin_alike_what_follows_the_last_shared_header_is_trained(chat, caplog):
    _announce.cache_clear()
    pair = PreferencePair(f"{BEGINNING}yes<|end|>", f"{BEGINNING}yellow")
    examples = encode_pairs([pair, pair], chat, DataSettings())
    assert [trained(chat, text) for text in examples.texts] == ["yes<|end|>", "yellow"]
    assert caplog.text.count("'<|assistant|>'") == 1 and "no --response_template" in caplog.text


def test_beside_a_prompt_all_of_chosen_and_rejected_is_trained(chat):
    row = {"prompt": BEGINNING, "chosen": "yes<|end|>", "rejected": "no<|end|>"}
    examples = encode_pairs([PreferencePair.from_dict(row)], chat, DataSettings())
    assert [trained(chat, text) for text in examples.texts] == ["yes<|end|>", "no<|end|>"]
    assert chat.tokenizer.decode(examples.texts[0].ids[: examples.texts[0].prompt_length].tolist()) == BEGINNING


def test_strings_in_the_markup_of_another_family_are_refused_by_their_place(chat):
    header = "<|start_header_id|>assistant<|end_header_id|>"
    texts = [f"{header}which?<|eot_id|>the human{header}{said}<|eot_id|>" for said in ("yes", "no")]
    with pytest.raises(UserError, match="pair 'a', 'chosen': a turn ends with '<|eot_id|>'"):
        encode_pairs([PreferencePair(*texts, id="a")], chat, DataSettings(response_template=header))
    rows = [[{"text": "task", "train": False}, {"text": f"{said}<|eot_id|>", "train": True}] for said in ("yes", "no")]
    with pytest.raises(UserError, match="pair 'b', 'chosen': a turn ends with '<|eot_id|>'"):
        encode_pairs([PreferencePair(*rows, id="b")], chat, DataSettings())


def test_rows_of_equal_texts_are_imitated_once_each(chat):
    rows = [{"prompt": BEGINNING, "chosen": text, "rejected": text} for text in ("a<|end|>", "b<|end|>", "a<|end|>")]
    examples = encode_replies([PreferencePair.from_dict(row) for row in rows], chat, DataSettings())
    assert [trained(chat, text) for text in examples.texts] == ["a<|end|>", "b<|end|>"]
    with pytest.raises(UserError, match="train_sft.py"):
        encode_pairs([PreferencePair.from_dict(row) for row in rows], chat, DataSettings())


def test_a_text_without_an_end_of_turn_token_at_its_end_is_counted_whatever_its_form(chat):
    asked = "<|bos|><|user|>q<|end|><|assistant|>"
    closed, open_end = asked + "yes<|end|>", asked + "no"
    pairs = [PreferencePair(closed, open_end, id="a"), PreferencePair(closed, asked + "no<|end|>", id="b")]
    data = DataSettings(response_template="<|assistant|>")
    assert encode_pairs(pairs, chat, data).counts == {NO_EOS: 1}
    assert encode_replies([PreferencePair(open_end, closed, id="a")], chat, data).counts == {NO_EOS: 1}
    cut = conversation(chat, "no", cut=True)
    glued = [*cut, {"text": chat.eos_text, "train": False}]
    sampled = [*conversation(chat, "")[:-1], {"text": "no", "train": True, "token_ids": [5, 6]}]
    for text in (cut, glued, sampled):
        pair = PreferencePair(conversation(chat, "yes"), text, id="c", tokenizer=chat.fingerprint)
        assert encode_pairs([pair], chat, data).counts == {NO_EOS: 1}
    history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "no", "input": asked, "output": "no"}]
    released = Trajectory(task=Task("q", "s", id="t"), dialogue_history=history, reward=1.0)
    assert encode_trajectories([released], chat, data).counts == {NO_EOS: 1}
    assert encode_trajectories([released], chat, DataSettings()).counts == {NO_EOS: 1}
    history[1] = {"role": "assistant", "content": "no", "finish_reason": "length"}
    own = Trajectory(task=Task("q", "s", id="t"), dialogue_history=history, reward=1.0)
    assert encode_trajectories([own], chat, DataSettings()).counts == {NO_EOS: 1}


def test_texts_in_which_the_agent_says_nothing_are_left_out_and_counted_and_unmarked_ones_are_refused(chat):
    good = PreferencePair(conversation(chat, "yes"), conversation(chat, "no"), id="a")
    asked = "<|bos|><|user|>q<|end|><|assistant|>"
    nothing = conversation(chat, "", cut=True)
    sampled = [*nothing[:-1], {"text": "", "train": True, "token_ids": []}]
    empty = [
        PreferencePair(conversation(chat, "yes"), nothing, id="b"),
        PreferencePair(nothing, conversation(chat, "yes"), id="c"),
        PreferencePair(conversation(chat, "yes"), sampled, id="d", tokenizer=chat.fingerprint),
        PreferencePair(asked + "yes<|end|>", asked, id="e"),
    ]
    for data in (DataSettings(response_template="<|assistant|>"), DataSettings()):
        examples = encode_pairs([good, *empty], chat, data)
        assert len(examples) == 1 and examples.counts == {EMPTY: 4}
    assert encode_replies([good, empty[1]], chat, DataSettings()).counts == {EMPTY: 1}
    history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "finish_reason": "length"}]
    rows = [Trajectory(task=Task("q", "s", id="t"), dialogue_history=history, reward=1.0), trajectory(1, 1.0)]
    assert encode_trajectories(rows, chat, DataSettings()).counts == {EMPTY: 1}
    unmarked = PreferencePair(good.chosen, [{"text": "no", "train": False}], id="f")
    with pytest.raises(UserError, match="pair 'f', 'rejected': nothing to train on"):
        encode_pairs([unmarked], chat, DataSettings())


def test_a_text_beyond_the_context_is_refused_with_its_line_unless_it_is_left_out(tmp_path):
    chat = ChatFormat.from_pretrained(save_tiny_chat_model(tmp_path, max_position_embeddings=64))
    pairs = [
        PreferencePair(conversation(chat, "a" * length), conversation(chat, "b"), id=str(length)) for length in (30, 80)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair.to_dict()) + "\n" for pair in pairs))
    read = read_records(tmp_path / "pairs.jsonl", PreferencePair)
    for most in (None, 100):
        with pytest.raises(UserError, match=r"pairs.jsonl, line 2, pair '80', 'chosen': .* has 64. Give --max_len 64"):
            encode_pairs(read, chat, DataSettings(max_len=most))
    assert encode_pairs(read, chat, DataSettings(max_len=64)).counts == {DROPPED: 1}
