"""Which dialogues a policy gradient takes, and that its tokens and log-probs are those of sampling."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lab.policy_gradients.policy_examples import ALONE, NO_REWARD, RE_ENCODED, SAME_REWARD, encode_policy_examples
from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from sweet_rl.training.settings import DataSettings


@pytest.fixture
def chat(tiny_chat) -> ChatFormat:
    return tiny_chat


def dialogue(chat: ChatFormat, task: str, sample: int, reward: float | None, says=("ab", "cde"), **fields):
    """A dialogue of sampled turns with an EOS each; token n of the dialogue has the log-prob -n / 8."""
    history, number = [{"role": "user", "content": f"task {task}"}], 0
    for text in says:
        ids = [*chat.tokenizer.encode(text, add_special_tokens=False), chat.eos_ids[0]]
        logprobs = [-(number + i) / 8 for i in range(len(ids))]
        number += len(ids)
        history += [
            {"role": "assistant", "content": text, "output": text, "token_ids": ids, "logprobs": logprobs,
             "finish_reason": "stop"},
            {"role": "user", "content": "Go on."},
        ]  # fmt: skip
    history.pop()
    made = Trajectory(
        Task(f"task {task}", "g", {}, id=task), history, reward=reward, id=f"{task}-{sample}",
        tokenizer=chat.fingerprint, parts=chat.dialogue(history),
    )  # fmt: skip
    return replace(made, **fields)


def encode(chat, rows, how=None, **data):
    return encode_policy_examples(rows, chat, DataSettings(**data), how or PolicyGradientSettings(), "file.jsonl")


def pair(chat, **fields) -> list[Trajectory]:
    return [dialogue(chat, "a", 0, 1.0, **fields), dialogue(chat, "a", 1, 0.0, says=("x",))]


def without(trajectory: Trajectory, *names: str) -> Trajectory:
    history = [{k: v for k, v in message.items() if k not in names} for message in trajectory.dialogue_history]
    return replace(trajectory, dialogue_history=history)


def test_the_trained_tokens_are_the_sampled_ones_with_their_log_probs_and_advantages(chat):
    found = encode(chat, pair(chat))
    text = found.texts[0]
    sampled = [t for m in pair(chat)[0].dialogue_history for t in m.get("token_ids", [])]
    assert text.ids[text.targets].tolist() == sampled
    assert [values.tolist() for values in found.sampled] == [[-i / 8 for i in range(7)], [0, -1 / 8]]
    assert [values.tolist() for values in found.advantages] == [[1] * 7, [-1] * 2]
    assert found.tasks == ["a", "a"] and not found.counts


def test_tokens_that_their_text_would_not_give_again_are_kept(chat):
    """A sampled EOS in place of the text's last character: the text of another tokenization, the same ids."""
    one, two = pair(chat)
    odd = [chat.eos_ids[0], *one.dialogue_history[1]["token_ids"]]
    one.dialogue_history[1] |= {"token_ids": odd, "logprobs": [-1.0] * len(odd)}
    one.parts = chat.dialogue(one.dialogue_history)
    text = encode(chat, [one, two]).texts[0]
    assert text.ids[text.targets][: len(odd)].tolist() == odd


def test_dialogues_without_reward_and_tasks_that_teach_nothing_are_left_out_and_counted(chat):
    rows = pair(chat) + [dialogue(chat, "b", i, 1.0) for i in range(3)] + [dialogue(chat, "c", 0, 1.0)]
    rows += [dialogue(chat, "a", 2, None), dialogue(chat, "a", 3, 0.0, ending="failed")]
    found = encode(chat, rows)
    assert found.tasks == ["a", "a"]
    assert found.counts == {SAME_REWARD: 3, ALONE: 1, NO_REWARD: 2}


def test_a_dialogue_that_is_too_long_counts_in_its_siblings_advantages(chat):
    rows = [*pair(chat), dialogue(chat, "a", 2, 1.0, says=("long" * 50,))]
    found = encode(chat, rows, max_len=100)
    assert len(found) == 2 and sum(found.counts.values()) == 1
    assert [own[0] for own in found.advantages] == pytest.approx([math.sqrt(1 / 2), -math.sqrt(2)])


def test_a_turns_weight_multiplies_the_advantage_of_its_tokens(chat):
    rows = pair(chat, turn_credit=[0.0, 2.0])
    rows[1].turn_credit = [1.0]
    found = encode(chat, rows, PolicyGradientSettings(turn_weight=0.5))
    # scores 0, 2, 1: z = -s, s, 0 with s = sqrt(3 / 2); turns of 3 and 4 tokens
    squashed = math.tanh(math.sqrt(1.5))
    low, high = 1 + 0.5 * (-squashed - squashed / 7), 1 + 0.5 * (squashed - squashed / 7)
    assert found.advantages[0].tolist() == pytest.approx([low] * 3 + [high] * 4)
    assert found.advantages[1].tolist() == [-1, -1]
    assert np.mean(found.advantages[0]) == pytest.approx(1)


def test_recomputed_log_probs_need_nothing_of_the_file_and_re_encoded_dialogues_are_counted(chat):
    rows = pair(chat)
    bare = [replace(without(rows[0], "token_ids", "logprobs"), parts=None, tokenizer=None), rows[1]]
    found = encode(chat, bare, PolicyGradientSettings(old_logprobs="recomputed"))
    assert found.sampled is None and found.counts == {RE_ENCODED: 1}
    assert found.texts[0].ids.tolist() == encode(chat, rows).texts[0].ids.tolist()


@pytest.mark.parametrize("change, words", [
    (lambda t: without(t, "logprobs"), "policy_gradients.collect"),
    (lambda t: replace(without(t, "token_ids"), parts=None), "token ids"),
    (lambda t: replace(t, tokenizer="other"), "token ids"),
])  # fmt: skip
def test_log_probs_that_are_not_those_of_the_trained_tokens_are_refused(chat, change, words):
    good, bad = pair(chat)
    with pytest.raises(UserError, match=f"file.jsonl, trajectory 'a-1'.*{words}"):
        encode(chat, [good, change(bad)])


@pytest.mark.parametrize("credit, words", [
    (None, "'turn_credit'"), ([1.0], "1 numbers for 2 turns"),
])  # fmt: skip
def test_missing_credit_is_refused(chat, credit, words):
    with pytest.raises(UserError, match=f"trajectory 'a-0'.*{words}"):
        encode(chat, pair(chat, turn_credit=credit), PolicyGradientSettings(turn_weight=0.5))


def test_files_that_teach_nothing_are_refused_with_the_reason(chat):
    with pytest.raises(UserError, match="evaluate_code.py"):
        encode(chat, [dialogue(chat, "a", 0, None)])
    with pytest.raises(UserError, match="--best_of_n"):
        encode(chat, [dialogue(chat, name, 0, 1.0) for name in "ab"])
    with pytest.raises(UserError, match=f"2 {SAME_REWARD}"):
        encode(chat, [dialogue(chat, "a", i, 1.0) for i in range(2)])
