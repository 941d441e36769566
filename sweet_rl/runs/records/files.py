"""Reads JSONL files of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic_core import from_json

from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.hub import local_path
from sweet_rl.runs.records.schema import PreferencePair, Task, Trajectory, TurnCandidates
from sweet_rl.runs.records.validation import shown

Record = TypeVar("Record", Task, Trajectory, TurnCandidates, PreferencePair)
MARKS: dict[str, type[Task | Trajectory | TurnCandidates | PreferencePair]] = {
    "dialogue_history": Trajectory,
    "additional_outputs": TurnCandidates,
    "chosen": PreferencePair,
    "problem_description": Task,
}


def read_records(path: str | Path, kind: type[Record], limit: int | None = None) -> list[Record]:
    """The records of a JSONL file.

    Rows without an id (released files) get the id of their content: trajectories `task-0`, `task-1`, ... in the
    order of the file; of other records with equal content, the later ones get `-1`, `-2`, ....

    Args:
        path: the file, or a name of one on the hub (`sweet_rl.runs.hub`).
        kind: Task, Trajectory, TurnCandidates or PreferencePair.
        limit: read only the first `limit` records; the rest of the file is not checked.

    Raises:
        RecordError: naming file, line, field, finding and remedy, for a missing or empty file, broken JSON, a missing
            field, a wrong type, the same id twice, or one task id for two tasks.
    """
    if limit is not None and limit < 1:
        raise RecordError(f"{path}: --limit is {limit}; it must be at least 1, and without it all records are read.")
    records: list[Record] = []
    line_of: dict[str, int] = {}
    copies = Counter[str]()
    tasks: dict[str, tuple[Task, int]] = {}  # and the line, by id
    for number, row in islice(read_rows(path), limit):
        where = f"{path}, line {number}"
        record = kind.from_dict(row, where)
        task = record.task if isinstance(record, Trajectory | TurnCandidates) else None
        if task is not None:
            known, line = tasks.setdefault(task.id, (task, number))
            if known.content != task.content:
                raise RecordError(
                    f"{where}: the task id {task.id!r} stands for another task on line {line}. Dialogues of one task "
                    "are compared with each other: give each task an id of its own, or remove 'id' from all tasks."
                )
        if not row.get("id"):
            base = record.task.id if isinstance(record, Trajectory) else record.id
            if copies[base] or isinstance(record, Trajectory):
                record.id = f"{base}-{copies[base]}"
            copies[base] += 1
        if record.id in line_of:
            raise RecordError(
                f"{where}: the id {record.id!r} is on line {line_of[record.id]} too. Ids tell records apart "
                "when a run is continued: give each row its own, or remove the field 'id' from all rows."
            )
        line_of[record.id] = number
        record.where = where
        records.append(record)
    if not records:
        raise RecordError(f"{path}: the file has no records. {kind.why_none}")
    return records


def kind_of(path: str | Path) -> type[Task | Trajectory | TurnCandidates | PreferencePair]:
    """The kind of records in a file, by the fields of its first row.

    Raises:
        UserError: The file is missing, empty or holds something else.
    """
    number, row = next(read_rows(path), (0, None))
    if row is None:
        raise UserError(f"{path} has no records. Was the step that writes it finished?")
    for mark, kind in MARKS.items():
        if mark in row:
            return kind
    raise UserError(
        f"{path}, line {number}: neither a trajectory ('dialogue_history'), nor candidates ('additional_outputs'), nor "
        f"a preference pair ('chosen'), nor a task. Fields found: {', '.join(map(repr, row)) or 'none'}."
    )


def parse_row(line: bytes | str, where: str) -> dict:
    """One line of JSON as a dict.

    Raises:
        RecordError: Broken JSON, NaN, bad UTF-8, half of a surrogate pair, and anything but an object.
    """
    try:
        row = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        found = str(error).replace("line 1 column", "column")
        if "hex escape" in found:
            found += ": half of a surrogate pair, which is no character"
        raise RecordError(
            f"{where}: not a line of JSON ({found}). Each line must be one JSON object, in which NaN and Infinity are "
            "no numbers: repair or remove it."
        ) from error
    if not isinstance(row, dict):
        raise RecordError(f"{where}: found {shown(row)}, expected a JSON object with named fields.")
    return row


def read_rows(path: str | Path) -> Iterator[tuple[int, dict]]:
    """(line number, row) of each line that is not blank. Raises RecordError as `parse_row`."""
    local = local_path(path)
    if not local.is_file():
        found = "is a directory" if local.is_dir() else "does not exist"
        raise RecordError(f"{path} {found}. A JSONL file of records was expected: check the path.")
    with open(local, "rb") as file:
        for number, line in enumerate(file, start=1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                yield number, parse_row(line, f"{path}, line {number}")
