"""Fields of a row: what is read, how it is written back, and what is refused by its name."""

from __future__ import annotations

import json

import pytest

from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, TurnCandidates

TASK = {"problem_description": "fee?", "ground_truth": "def f(): 1"}
TRAJECTORY = {"task": TASK, "dialogue_history": [{"role": "user", "content": "fee?"}]}
CANDIDATES = {"input": "p", "older_output": "a", "additional_outputs": ["b", "c"]}
HISTORY = "dialogue_history"
MESSAGE = {"role": "assistant", "content": "x"}
PAIR = {"chosen": "a", "rejected": "b"}


@pytest.mark.parametrize(
    ("kind", "row", "named"),
    [
        (Task, TASK | {"ground_truth": None}, "'ground_truth' is missing"),
        (Task, TASK | {"test_cases": {"t": 1}}, "'test_cases'.t is 1; it should be a valid string"),
        (Task, {"ground_truth": "x"}, "'problem_description' .*found: 'ground_truth'"),
        (Trajectory, TRAJECTORY | {"leaks": 1.5}, "'leaks' is 1.5; it should be a valid integer"),
        (Trajectory, TRAJECTORY | {"leaks": True}, "'leaks' is true"),
        (Trajectory, TRAJECTORY | {"reward": True}, "'reward' is true; it should be a valid number"),
        (Trajectory, TRAJECTORY | {"reward": 1.5}, "'reward' is 1.5; it should be less than or equal to 1"),
        (Trajectory, TRAJECTORY | {"ending": "won"}, "'ending'.*answered', 'turn_limit' or 'failed"),
        (Trajectory, TRAJECTORY | {"usage": {"agent": 3}}, "'usage'.agent is 3"),
        (Trajectory, TRAJECTORY | {"grade": "good"}, "'grade' is \"good\""),
        (Trajectory, TRAJECTORY | {"parts": "a"}, "'parts'.* a valid list"),
        (Trajectory, TRAJECTORY | {HISTORY: [3]}, r"'dialogue_history'\[0\] is 3"),
        (Trajectory, TRAJECTORY | {HISTORY: [{}]}, r"'dialogue_history'\[0\].role is missing"),
        (Trajectory, TRAJECTORY | {HISTORY: [MESSAGE | {"role": "tool"}]}, r"history'\[0\].role is \"tool\""),
        (Trajectory, TRAJECTORY | {HISTORY: [MESSAGE, MESSAGE | {"oracle": 1}]}, r"history'\[1\].oracle is 1"),
        (Trajectory, TRAJECTORY | {HISTORY: [MESSAGE | {"token_ids": ["a"]}]}, r"\[0\].token_ids\[0\]"),
        (Trajectory, TRAJECTORY | {HISTORY: [MESSAGE | {"token_ids": [1.5]}]}, r"\[0\].token_ids\[0\]"),
        (Trajectory, TRAJECTORY | {HISTORY: [MESSAGE | {"logprobs": [None]}]}, r"\[0\].logprobs\[0\] is null"),
        (Trajectory, TRAJECTORY | {HISTORY: [MESSAGE | {"logprobs": [float("inf")]}]}, "a finite number"),
        (Trajectory, TRAJECTORY | {"task": {}}, "'task'.problem_description is missing"),
        (Trajectory, TRAJECTORY | {"id": 3}, "'id' is 3"),
        (TurnCandidates, CANDIDATES | {"additional_outputs": ["b", 1]}, r"'additional_outputs'\[1\] is 1"),
        (TurnCandidates, CANDIDATES | {"additional_token_ids": [[1], 2]}, r"'additional_token_ids'\[1\] is 2"),
        (TurnCandidates, CANDIDATES | {"additional_token_ids": [[1]]}, "1 entries for 2"),
        (TurnCandidates, CANDIDATES | {"judge_scores": [1, 2, 3]}, "'judge_scores'.*3 entries for 2"),
        (TurnCandidates, CANDIDATES | {"judge_result": [0, 0], "judge_scores": [1, 2]}, "'judge_result'.*0..1"),
        (TurnCandidates, CANDIDATES | {"dialogue": [{"role": "user"}]}, r"'dialogue'\[0\].content is missing"),
        (TurnCandidates, CANDIDATES | {"additional_reference_logprobs": [[1.0], 2.0]}, "reference_logprobs'"),
        (TurnCandidates, CANDIDATES | {"turn": "1"}, "'turn'"),
        (TurnCandidates, CANDIDATES | {"input": 5}, "'input' is 5; .* a valid list or .* a valid string"),
        (PreferencePair, PAIR | {"task_id": 3}, "'task_id'"),
        (PreferencePair, PAIR | {"chosen": [{"text": "a", "train": 1}]}, r"'chosen'\[0\].train is 1"),
        (PreferencePair, [1], r"row: found \[1\]"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_was_expected(kind, row, named):
    with pytest.raises(RecordError, match=f"row: .*{named.removeprefix('row: ')}"):
        kind.from_dict(row, "row")


def test_null_is_absent_as_in_files_that_went_through_datasets():
    task = Task.from_dict(TASK | {"test_cases": {"a": "f(1)", "of_another_task": None}, "id": None})
    assert task.test_cases == {"a": "f(1)"} and task.id == Task(**TASK, test_cases={"a": "f(1)"}).id
    history = [{"role": "user", "content": "fee?", "input": None, "token_ids": None}]
    rest = {"reward": None, "grade": None, "usage": {"agent": {"prompt_tokens": None}, "human": None}}
    read = Trajectory.from_dict(TRAJECTORY | {HISTORY: history, "human": {"name": "x", "hash": None}} | rest)
    assert (read.reward, read.grade, read.human) == (None, None, {"name": "x"})
    assert read.usage == {"agent": {"prompt_tokens": None}}


def test_a_whole_float_is_a_whole_number_as_in_tables_with_nulls():
    read = Trajectory.from_dict(TRAJECTORY | {"leaks": 2.0})
    assert (read.leaks, type(read.leaks)) == (2, int)
    assert TurnCandidates.from_dict(CANDIDATES | {"turn": 3.0}).turn == 3


def test_what_was_read_is_written_back_byte_for_byte():
    said = {"content": "x", "mine": 3, "logprobs": [0, -1.5], "token_ids": [1, 2], "input": None, "role": "assistant"}
    row = {
        "id": "t-0", "task": {"id": "t", **TASK, "test_cases": {}, "level": "hard"}, "dialogue_history": [said],
        "answer": None, "reward": 1, "failure": {"more": [1], "kind": "timeout"}, "turn_credit": [1, 0.5], "noted": 0,
    }  # fmt: skip
    assert json.dumps(Trajectory.from_dict(row).to_dict()) == json.dumps(row)
    row = {"id": "c", "older_output": "a", "input": [{"train": True, "text": "p"}], "additional_outputs": ["b", "c"]}
    row |= {"additional_reference_logprobs": [[-1], [0, -2.5]], "judge_scores": [1, 2.5], "answer_rewards": [None, 1]}
    assert TurnCandidates.from_dict(row).to_dict() == row
    assert str(TurnCandidates.from_dict(row).judge_scores) == "[1, 2.5]"
