"""The list of tasks that --exclude leaves out."""

import pytest

from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.records import Task, Trajectory, without_excluded
from tests.support.command_line import write_rows

TASKS = [Task(f"task {n}", "def f(): pass") for n in range(3)]


def listed(path, *ids) -> str:
    return str(write_rows(path, [{"id": one, "reasons": {"no tests": ""}} for one in ids]))


def test_tasks_and_trajectories_of_listed_tasks_are_left_out_in_order(tmp_path, capsys):
    path = listed(tmp_path / "list.jsonl", TASKS[1].id, "of another file")
    assert without_excluded(TASKS, path) == [TASKS[0], TASKS[2]]
    assert "1 of 3" in capsys.readouterr().out
    played = [Trajectory(task, [], id=f"{task.id}-{n}") for task in TASKS for n in range(2)]
    assert without_excluded(played, path) == [*played[:2], *played[4:]]
    assert without_excluded(TASKS, None) == TASKS


def test_a_list_that_cannot_be_meant_is_refused(tmp_path):
    path = tmp_path / "list.jsonl"
    with pytest.raises(RecordError, match="list.jsonl"):
        without_excluded(TASKS, str(path))
    path.write_text('{"id": "a"}\n{"task": "b"}\n')
    with pytest.raises(RecordError, match="line 2: .*'id'"):
        without_excluded(TASKS, str(path))
    with pytest.raises(RecordError, match="all 3 tasks"):
        without_excluded(TASKS, listed(path, *(task.id for task in TASKS)))
