"""Rows as the release writes them, read as records."""

from __future__ import annotations

import pytest

from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.records import PreferencePair, TurnCandidates

MESSAGES = [
    {"role": "user", "content": "the task"},
    {"role": "assistant", "content": "why?"},
    {"role": "user", "content": "because"},
    {"role": "assistant", "content": "here it is"},
]
SAMPLED = {
    "input": "prompt", "input_with_ground_truth": "c prompt", "older_output": "here it is", "reward": 1.0,
    "ground_truth": "def f(): pass", "messages": MESSAGES, "additional_outputs": ["a", "b", "c"],
    "additional_reference_logprobs": [-0.5, -0.25, -1.0], "additional_reference_logprobs_sum": [-1.0, -0.5, -3.0],
}  # fmt: skip


def test_sampled_candidates_have_their_dialogue_and_the_reference_solution():
    record = TurnCandidates.from_dict(SAMPLED)
    assert record.dialogue == MESSAGES[:3]
    assert (record.task.problem_description, record.task.ground_truth) == ("the task", "def f(): pass")
    assert record.turn is None and record.judge_result is None
    other = TurnCandidates.from_dict(SAMPLED | {"messages": MESSAGES[:2], "older_output": "why?"})
    assert other.task.id == record.task.id and other.dialogue == MESSAGES[:1]
    row = record.to_dict()
    assert all(row[name] == value for name, value in SAMPLED.items())


@pytest.mark.parametrize(
    ("judge_result", "order", "scores"),
    [
        ([0.1, -2.5, 0.7], [2, 0, 1], [0.1, -2.5, 0.7]),
        ([0.5, 0.5, 0.9], [2, 0, 1], [0.5, 0.5, 0.9]),
        ([2.0, 0.0, 1.0], [0, 2, 1], [2.0, 0.0, 1.0]),
        ([3, 1, 2], [0, 2, 1], [3, 1, 2]),
        ([0, 0, 1], [2, 0, 1], [0, 0, 1]),
        ([2, 0, 1], [2, 0, 1], None),
    ],
)
def test_whole_numbers_that_name_each_candidate_are_indices_and_anything_else_scores(judge_result, order, scores):
    record = TurnCandidates.from_dict(SAMPLED | {"judge_result": judge_result})
    assert (record.judge_result, record.judge_scores) == (order, scores)


@pytest.mark.parametrize("judge_result", ["012", ["0", "1", "2"], 3])
def test_what_is_no_list_of_numbers_is_refused_by_its_name(judge_result):
    with pytest.raises(RecordError, match="judge_result"):
        TurnCandidates.from_dict(SAMPLED | {"judge_result": judge_result})


def test_a_pair_with_a_prompt_trains_all_of_both_texts_and_nothing_of_the_prompt():
    pair = PreferencePair.from_dict({"prompt": "p", "chosen": "a", "rejected": "b"})
    prompt = {"text": "p", "train": False}
    assert pair.chosen == [prompt, {"text": "a", "train": True}]
    assert pair.rejected == [prompt, {"text": "b", "train": True}]
    parts = [{"text": "x", "train": True}]
    ours = PreferencePair.from_dict({"prompt": "mine", "chosen": parts, "rejected": parts})
    assert ours.chosen == parts and ours.extra == {"prompt": "mine"}


@pytest.mark.parametrize(
    "prompt", ["<|user|>q<|assistant|>", "<|im_start|>assistant\n", "[INST] q [/INST] ", "\n\nHuman: q\n\nAssistant:"]
)
def test_texts_that_hold_their_prompt_do_not_get_it_twice(prompt):
    whole = PreferencePair.from_dict({"prompt": prompt, "chosen": prompt + " a", "rejected": prompt + " b"})
    apart = PreferencePair.from_dict({"prompt": prompt, "chosen": " a", "rejected": " b"})
    assert (whole.chosen, whole.rejected) == (apart.chosen, apart.rejected)


@pytest.mark.parametrize(
    ("prompt", "chosen", "rejected"),
    [
        (
            "def f(x):",
            "def f(x):\n    return x",
            "def f(x):\n    pass",
        ),  # both replies repeat the code that they complete
        ("<|assistant|>", "<|assistant|>a", "b"),
    ],
)
def test_a_reply_that_repeats_its_prompt_is_trained_whole(prompt, chosen, rejected):
    pair = PreferencePair.from_dict({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    assert [pair.chosen[-1]["text"], pair.rejected[-1]["text"]] == [chosen, rejected]


def test_the_texts_of_frontend_pairs_are_input_and_output_together():
    row = {"chosen": {"input": "p", "output": "a"}, "rejected": {"input": "q", "output": "b"}}
    pair = PreferencePair.from_dict(row)
    assert (pair.chosen, pair.rejected) == ("pa", "qb")
