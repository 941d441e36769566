import json

import pytest

from sweet_rl.errors import RecordError
from sweet_rl.records import (
    PreferencePair,
    Task,
    Trajectory,
    TurnCandidates,
    read_records,
)
from tests.support.command_line import write_rows

TASK = {"problem_description": "fee?", "ground_truth": "def f(): 1", "test_cases": {"test1": "f()"}}
HISTORY = [
    {"role": "user", "content": "fee?"},
    {"role": "assistant", "content": "Which?", "input": "<s>fee?"},
]
TRAJECTORY = {"task": TASK, "dialogue_history": HISTORY, "answer": None, "reward": 0.5}
CANDIDATES = {"input": "p", "older_output": "a", "additional_outputs": ["b", "c"]}
PART = {"text": "hi", "train": True, "token_ids": [1, 2]}
PAIR = {"chosen": [PART], "rejected": [{"text": "no", "train": False}]}


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (Task, TASK | {"hidden_information": "x"}),
        (Trajectory, TRAJECTORY | {"reward_details": {"test1": True}}),
        (
            Trajectory,
            TRAJECTORY
            | {
                "ending": "failed",
                "failure": {"kind": "timeout", "message": "m", "side": "human"},
                "parts": [PART],
            },
        ),
        (TurnCandidates, CANDIDATES | {"task": TASK, "turn": 1, "judge_result": [1, 0], "mine": 3}),
        (
            TurnCandidates,
            CANDIDATES | {"additional_reference_logprobs": [-0.5, -1], "judge_scores": [0.1, 2]},
        ),
        (TurnCandidates, CANDIDATES | {"additional_reference_logprobs": [[-0.5], [-1, 0]], "input": [PART]}),
        (PreferencePair, PAIR | {"tokenizer": "abc", "task_id": "t"}),
        (PreferencePair, {"chosen": "a", "rejected": "b"}),
    ],
)
def test_what_is_read_is_written_back_with_its_unknown_fields_and_an_id(tmp_path, kind, row):
    (record,) = read_records(write_rows(tmp_path / "r.jsonl", [row]), kind)
    written = record.to_dict()
    assert written["id"] == record.id
    assert {k: v for k, v in written.items() if k in row and k != "task"} == {
        k: v for k, v in row.items() if k != "task"
    }
    assert set(written) - set(row) == {"id"}
    assert read_records(write_rows(tmp_path / "again.jsonl", [written]), kind) == [record]


def test_released_trajectories_are_numbered_within_their_task(tmp_path):
    other = TRAJECTORY | {"task": TASK | {"ground_truth": "def f(): 2"}}
    path = write_rows(tmp_path / "t.jsonl", [TRAJECTORY, other, TRAJECTORY, TRAJECTORY])
    first, second, third, fourth = read_records(path, Trajectory)
    assert first.id == f"{first.task.id}-0" and second.id == f"{second.task.id}-0"
    assert third.id == f"{first.task.id}-1" and fourth.id == f"{first.task.id}-2"


def test_equal_tasks_without_ids_are_told_apart(tmp_path):
    first, second = read_records(write_rows(tmp_path / "t.jsonl", [TASK, TASK]), Task)
    assert second.id == f"{first.id}-1"


def test_limit_reads_no_further(tmp_path):
    path = write_rows(tmp_path / "t.jsonl", [TASK, TASK])
    path.write_text(path.read_text() + "broken")
    assert len(read_records(path, Task, limit=2)) == 2
    for limit in (0, -1):
        with pytest.raises(RecordError, match="at least 1"):
            read_records(path, Task, limit=limit)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("", Task, "has no records"),
        ("\n\n", Task, "has no records"),
        (json.dumps(TASK) + "\n{broken\n", Task, "line 2: not a line of JSON"),
        ('{"a": NaN}', Task, "line 1: not a line of JSON .NaN"),
        ("[1]", Task, "line 1: found a list .1., expected a JSON object"),
        (
            json.dumps({"ground_truth": "x"}),
            Task,
            "line 1: the field 'problem_description' is missing.*found: 'gr",
        ),
        (
            json.dumps(TASK | {"test_cases": {"t": 1}}),
            Task,
            "'test_cases' is an object.*must be an object of text",
        ),
        (json.dumps(TASK | {"ground_truth": None}), Task, "'ground_truth' is null; it must be text"),
        (
            json.dumps(TASK | {"id": "a"}) + "\n" + json.dumps(TASK | {"id": "a"}),
            Task,
            "line 2: the id 'a' is on line 1",
        ),
        (json.dumps(TRAJECTORY | {"task": "t"}), Trajectory, "'task' is text \"t\"; it must be an object"),
        (
            json.dumps(TRAJECTORY | {"task": {}}),
            Trajectory,
            "line 1, in 'task': the field 'problem_description'",
        ),
        (json.dumps(TRAJECTORY | {"reward": "1"}), Trajectory, "'reward' is text \"1\"; it must be a number"),
        (json.dumps(TRAJECTORY | {"reward": True}), Trajectory, "'reward' is true/false true"),
        (
            json.dumps(TRAJECTORY | {"ending": "won"}),
            Trajectory,
            "'ending'.*one of answered, turn_limit, failed",
        ),
        (
            json.dumps(TRAJECTORY | {"dialogue_history": [{"role": "tool", "content": ""}]}),
            Trajectory,
            r"dialogue_history\[0\]: the field 'role' is text \"tool\"",
        ),
        (
            json.dumps(CANDIDATES | {"judge_result": [0, 0], "judge_scores": [1, 2]}),
            TurnCandidates,
            "'judge_result'.*each of 0..1 once",
        ),
        (json.dumps(CANDIDATES | {"judge_scores": [1]}), TurnCandidates, "'judge_scores'.*1 entries for 2"),
        (
            json.dumps(PAIR | {"chosen": [{"text": "a"}]}),
            PreferencePair,
            "'chosen'.*must be text or a list of parts",
        ),
    ],
)
def test_a_bad_file_is_named_with_line_field_and_remedy(tmp_path, content, kind, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(RecordError, match=message) as error:
        read_records(path, kind)
    assert str(path) in str(error.value)


def test_a_missing_file_and_a_directory_are_errors(tmp_path):
    with pytest.raises(RecordError, match="no.jsonl does not exist.*check the path"):
        read_records(tmp_path / "no.jsonl", Task)
    with pytest.raises(RecordError, match="is a directory"):
        read_records(tmp_path, Task)


def test_bytes_that_are_not_utf_8_are_an_error_with_the_line(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(json.dumps(TASK).encode() + b'\n{"ground_truth": "\xe9"}\n')
    with pytest.raises(RecordError, match="line 2: not a line of JSON"):
        read_records(path, Task)


def test_a_byte_order_mark_is_no_content(tmp_path):
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(TASK).encode())
    assert read_records(path, Task)[0].ground_truth == TASK["ground_truth"]
