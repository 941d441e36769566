"""Fields of a row against the type hints of its record."""

from __future__ import annotations

import pytest

from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.records import Part, PreferencePair, Task, Trajectory, TurnCandidates
from sweet_rl.runs.records.checks import accepts, shown

TASK = {"problem_description": "fee?", "ground_truth": "def f(): 1"}
TRAJECTORY = {"task": TASK, "dialogue_history": [{"role": "user", "content": "fee?"}]}
CANDIDATES = {"input": "p", "older_output": "a", "additional_outputs": ["b", "c"]}
MESSAGE = {"role": "assistant", "content": "x"}
PAIR = {"chosen": "a", "rejected": "b"}


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
    ("kind", "row", "named"),
    [
        (Task, TASK | {"ground_truth": None}, "'ground_truth' is null.* text"),
        (Task, TASK | {"test_cases": {"t": 1}}, "'test_cases' is an object.* an object of texts"),
        (Task, {"ground_truth": "x"}, "'problem_description' .*found: 'ground_truth'"),
        (Trajectory, TRAJECTORY | {"leaks": 1.5}, "'leaks' is a number 1.5.* a whole number"),
        (Trajectory, TRAJECTORY | {"reward": True}, "'reward' is true/false true.* a number"),
        (Trajectory, TRAJECTORY | {"ending": "won"}, "'ending'.*answered, turn_limit, failed"),
        (Trajectory, TRAJECTORY | {"usage": {"agent": 3}}, "'usage'.* an object of objects of whole numbers"),
        (Trajectory, TRAJECTORY | {"grade": "good"}, "'grade' is text \"good\".* an object"),
        (Trajectory, TRAJECTORY | {"parts": "a"}, "'parts'.* a list of objects {text, train, token_ids"),
        (Trajectory, TRAJECTORY | {"dialogue_history": "a"}, "'dialogue_history' is text"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [3]}, r"dialogue_history\[0\]: .*a number 3"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [{}]}, r"history\[0\]: .*'role'"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [MESSAGE | {"role": "tool"}]}, r"history\[0\]: .*'role'"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [MESSAGE, MESSAGE | {"oracle": 1}]}, r"history\[1\].*'oracle'"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [MESSAGE | {"token_ids": ["a"]}]}, "'token_ids'"),
        (Trajectory, TRAJECTORY | {"dialogue_history": [MESSAGE | {"logprobs": [None]}]}, "'logprobs'"),
        (Trajectory, TRAJECTORY | {"task": None}, "'task' is null"),
        (Trajectory, TRAJECTORY | {"task": {}}, "in 'task': .*'problem_description'"),
        (Trajectory, TRAJECTORY | {"id": 3}, "'id' is a number 3"),
        (TurnCandidates, CANDIDATES | {"additional_outputs": ["b", 1]}, "a list of texts"),
        (TurnCandidates, CANDIDATES | {"additional_token_ids": [[1], 2]}, "a list of lists of whole numbers"),
        (TurnCandidates, CANDIDATES | {"additional_token_ids": [[1]]}, "1 entries for 2"),
        (TurnCandidates, CANDIDATES | {"judge_scores": [1]}, "'judge_scores'.*1 entries for 2"),
        (TurnCandidates, CANDIDATES | {"judge_scores": [1, 2, 3]}, "'judge_scores'.*3 entries for 2"),
        (TurnCandidates, CANDIDATES | {"judge_result": [0, 0], "judge_scores": [1, 2]}, "'judge_result'.*0..1"),
        (TurnCandidates, CANDIDATES | {"dialogue": [{"role": "user"}]}, r"dialogue\[0\].*'content'"),
        (TurnCandidates, CANDIDATES | {"additional_reference_logprobs": [[1.0], 2.0]}, "lists of numbers or a list of"),
        (TurnCandidates, CANDIDATES | {"turn": "1"}, "'turn'"),
        (PreferencePair, PAIR | {"task_id": 3}, "'task_id'"),
        (PreferencePair, PAIR | {"chosen": [{"text": "a"}]}, "'chosen'.* text or a list of objects"),
        (PreferencePair, [1], "row: .*a list .1."),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_was_expected(kind, row, named):
    with pytest.raises(RecordError, match=named):
        kind.from_dict(row, "row")


def test_null_is_the_default_of_an_optional_field():
    task = Task.from_dict(TASK | {"test_cases": None, "id": None})
    assert task.test_cases == {} and len(task.id) == 16
    assert Trajectory.from_dict(TRAJECTORY | {"reward": None, "grade": None}).reward is None


def test_a_long_value_is_cut_in_the_error():
    assert shown("x" * 100) == 'text "' + "x" * 76 + "..."
    assert shown(None) == "null" and shown(True) == "true/false true" and shown({}) == "an object {}"
