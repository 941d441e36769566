"""The list of tasks that `--exclude` leaves out: JSONL rows {id, reasons}; `reasons` is optional."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.read_files import lines_of
from sweet_rl.runs.records.files import parse_row
from sweet_rl.runs.records.schema import Task, Trajectory

Record = TypeVar("Record", Task, Trajectory)


def without_excluded(records: Sequence[Record], path: str | None) -> list[Record]:
    """The tasks, or the trajectories of tasks, that the list at `path` does not name; all if there is no list.

    Prints how many are left out.

    Raises:
        RecordError: the list cannot be read, one of its rows has no id, or it names every task.
    """
    if path is None:
        return list(records)
    excluded = _read_ids(path)
    kept = [record for record in records if _task_id(record) not in excluded]
    tasks = {_task_id(record) for record in records}
    if records and not kept:
        raise RecordError(f"{path} names all {len(tasks)} tasks: nothing is left. Is it the list of this file's audit?")
    print(f"{path}: {len(tasks & excluded)} of {len(tasks)} tasks are left out")
    return kept


def _read_ids(path: str) -> set[str]:
    if not Path(path).is_file():
        raise RecordError(f"--exclude {path}: there is no such file. docs/files.md describes such a list.")
    ids = set()
    for number, line in enumerate(lines_of(Path(path)), start=1):
        if line.strip():
            row = parse_row(line, f"{path}, line {number}")
            if not isinstance(row.get("id"), str):
                raise RecordError(f"{path}, line {number}: no field 'id' with the id of a task (text). Give it one.")
            ids.add(row["id"])
    return ids


def _task_id(record: Task | Trajectory) -> str:
    return record.task.id if isinstance(record, Trajectory) else record.id
