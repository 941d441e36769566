from __future__ import annotations

import pytest

from sweet_rl.errors import RecordError
from sweet_rl.records import Part, PreferencePair, Task, Trajectory, TurnCandidates
from sweet_rl.records.checks import accepts, shown

TASK = {"problem_description": "fee?", "ground_truth": "def f(): 1"}
TRAJECTORY = {"task": TASK, "dialogue_history": [{"role": "user", "content": "fee?"}]}
CANDIDATES = {"input": "p", "older_output": "a", "additional_outputs": ["b", "c"]}
MESSAGE = {"role": "assistant", "content": "x"}


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True), (True, int, False), (1.0, int, False),
        (1, float, True), (0.5, float, True), (False, float, False), (float("inf"), float, False), ("1", float, False),
        ([], list[int], True), ([1, 2.5], list[int], False), ([1, 2.5], list[float], True), ((1,), list[int], False),
        ({"a": "b"}, dict[str, str], True), ({"a": 1}, dict[str, str], False), ([], dict, False), ({}, dict, True),
        ({"text": "a", "train": True}, Part, True), ({"text": "a", "train": 1}, Part, False), ({}, Part, False),
        ({"text": "a", "train": False, "token_ids": None}, Part, True),
        ({"text": "a", "train": False, "token_ids": [1.5]}, Part, False),
        ({"text": "a", "train": False, "mine": 3}, Part, True),
        ("a", str | list[Part], True), ([{}], str | list[Part], False),
    ],
)  # fmt: skip
def test_a_value_is_of_a_type_or_not(value, hint, expected):
    assert accepts(value, hint) is expected


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        (Trajectory, TRAJECTORY | {"leaks": 1.5}, "'leaks' is a number 1.5; it must be a whole number"),
        (Trajectory, TRAJECTORY | {"usage": {"agent": 3}}, "'usage'.*must be an object of objects of whole numbers"),
        (Trajectory, TRAJECTORY | {"grade": "good"}, "'grade' is text \"good\"; it must be an object"),
        (Trajectory, TRAJECTORY | {"parts": "a"}, "'parts'.*must be a list of parts {text, train, token_ids"),
        (Trajectory, TRAJECTORY | {"dialogue_history": "a"}, "'dialogue_history' is text"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [3]}, r"dialogue_history\[0\]: found a number 3"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [{}]}, r"history\[0\]: the field 'role' is missing"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [MESSAGE, MESSAGE | {"oracle": 1}]}, r"history\[1\].*'oracle'"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [MESSAGE | {"token_ids": ["a"]}]}, "'token_ids'"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [MESSAGE | {"logprobs": [None]}]}, "'logprobs'"),
        (Trajectory, TRAJECTORY | {"task": None}, "'task' is null; it must be an object"),
        (Trajectory, TRAJECTORY | {"id": 3}, "'id' is a number 3; it must be text"),
        (TurnCandidates, CANDIDATES | {"additional_outputs": ["b", 1]}, "must be a list of texts"),
        (TurnCandidates, CANDIDATES | {"additional_token_ids": [[1], 2]}, "must be a list of lists of whole numbers"),
        (TurnCandidates, CANDIDATES | {"additional_token_ids": [[1]]}, "1 entries for 2 .*one entry per candidate"),
        (TurnCandidates, CANDIDATES | {"dialogue": [{"role": "user"}]}, r"dialogue\[0\].*'content' is missing"),
        (TurnCandidates, CANDIDATES | {"additional_reference_logprobs": [[1.0], 2.0]}, "lists of numbers or a list of"),
        (TurnCandidates, CANDIDATES | {"task": {}}, "in 'task': the field 'problem_description' is missing"),
        (TurnCandidates, CANDIDATES | {"turn": "1"}, "'turn'"),
        (PreferencePair, {"chosen": "a", "rejected": "b", "task_id": 3}, "'task_id'"),
        (PreferencePair, [1], "row: found a list .1., expected an object"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_was_expected(kind, row, message):
    with pytest.raises(RecordError, match=message):
        kind.from_dict(row, "row")


def test_null_is_the_default_of_an_optional_field():
    task = Task.from_dict(TASK | {"test_cases": None, "id": None})
    assert task.test_cases == {} and len(task.id) == 16
    assert Trajectory.from_dict(TRAJECTORY | {"reward": None, "grade": None}).reward is None


def test_a_long_value_is_cut_in_the_error():
    assert shown("x" * 100) == 'text "' + "x" * 76 + "..."
    assert shown(None) == "null" and shown(True) == "true/false true" and shown({}) == "an object {}"
