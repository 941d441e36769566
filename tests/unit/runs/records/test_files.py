"""JSONL files of records: read, written back, numbered, and refused with the line that is wrong."""

import json

import pytest

from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, TurnCandidates, read_records
from tests.support.command_line import write_rows

TASK = {"problem_description": "fee?", "ground_truth": "def f(): 1", "test_cases": {"test1": "f()"}}
HISTORY = [{"role": "user", "content": "fee?"}, {"role": "assistant", "content": "Which?", "input": "<s>fee?"}]
TRAJECTORY = {"task": TASK, "dialogue_history": HISTORY, "answer": None, "reward": 0.5}
FAILED = {"ending": "failed", "failure": {"kind": "timeout", "message": "m", "side": "human"}}
CANDIDATES = {"input": "p", "older_output": "a", "additional_outputs": ["b", "c"]}
PART = {"text": "hi", "train": True, "token_ids": [1, 2]}
PAIR = {"chosen": [PART], "rejected": [{"text": "no", "train": False}]}


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (Task, TASK | {"hidden_information": "x"}),
        (Trajectory, TRAJECTORY | {"reward_details": {"test1": True}}),
        (Trajectory, TRAJECTORY | FAILED | {"parts": [PART]}),
        (TurnCandidates, CANDIDATES | {"task": TASK, "turn": 1, "judge_result": [1, 0], "mine": 3}),
        (TurnCandidates, CANDIDATES | {"additional_reference_logprobs": [-0.5, -1], "judge_scores": [0.1, 2]}),
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


def test_limit_reads_no_further(tmp_path):
    path = write_rows(tmp_path / "t.jsonl", [TASK, TASK])
    path.write_text(path.read_text() + "broken")
    assert len(read_records(path, Task, limit=2)) == 2
    for limit in (0, -1):
        with pytest.raises(RecordError, match="at least 1"):
            read_records(path, Task, limit=limit)


GOOD = json.dumps(TASK).encode()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "no records"),
        (b"\n\n", "no records"),
        (GOOD + b"\n{broken\n", "line 2: .*JSON"),
        (GOOD + b'\n{"ground_truth": "\xe9"}\n', "line 2: .*JSON"),
        (b'{"a": NaN}', "line 1: .*NaN"),
        (b"[1]", "line 1: .*found .1.* JSON object"),
        (b'{"a": "x\\ud83dy"}', "line 1: .*half of a surrogate pair"),
        (GOOD + b'\n{"ground_truth": "x"}', "line 2: .*'problem_description'"),
        (json.dumps(TASK | {"id": "a"}).encode() + b'\n{"ground_truth": "x", "problem_description": "y", "id": "a"}',
         "line 2: the id 'a' is on line 1"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_line(tmp_path, content, named):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=named) as error:
        read_records(path, Task)
    assert str(path) in str(error.value)


def test_a_missing_file_and_a_directory_are_errors(tmp_path):
    with pytest.raises(RecordError, match="no.jsonl does not exist"):
        read_records(tmp_path / "no.jsonl", Task)
    with pytest.raises(RecordError, match="directory"):
        read_records(tmp_path, Task)
