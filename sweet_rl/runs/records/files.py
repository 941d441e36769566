"""Reads JSONL files of records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.names import local_path
from sweet_rl.runs.read_files import lines_of
from sweet_rl.runs.records.checks import shown
from sweet_rl.runs.records.schema import PreferencePair, Task, Trajectory, TurnCandidates

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
        path: the file, or a name of one on the hub (`sweet_rl.runs.names`).
        kind: Task, Trajectory, TurnCandidates or PreferencePair.
        limit: read only the first `limit` records; the rest of the file is not checked.

    Raises:
        RecordError: naming file, line, field, finding and remedy, for a missing or empty file, broken JSON, a missing
            field, a wrong type, the same id twice, or one task id for two tasks.
    """
    return [record for _, record in scan_records(path, kind, limit)]


def scan_records(path: str | Path, kind: type[Record], limit: int | None = None) -> Iterator[tuple[int, Record]]:
    """`read_records` one by one, for files that do not fit in memory: (byte at which the line starts, record)."""
    if limit is not None and limit < 1:
        raise RecordError(f"{path}: {limit} records were asked for; ask for at least 1, or for all (None).")
    line_of: dict[str, int] = {}
    copies: dict[str, int] = {}
    tasks: dict[str, tuple[int, int]] = {}  # hash of the content and line, by id
    for number, start, row in islice(scan_rows(path), limit):
        where = f"{path}, line {number}"
        record = kind.from_dict(row, where)
        task = record.task if isinstance(record, Trajectory | TurnCandidates) else None
        if task is not None:
            content, line = tasks.setdefault(task.id, (hash(task.content), number))
            if content != hash(task.content):
                raise RecordError(
                    f"{where}: the task id {task.id!r} stands for another task on line {line}. Dialogues of one task "
                    "are compared with each other: give each task an id of its own, or remove 'id' from all tasks."
                )
        if not row.get("id"):
            base = record.task.id if isinstance(record, Trajectory) else record.id
            copy = copies.get(base, 0)
            copies[base] = copy + 1
            if copy or isinstance(record, Trajectory):
                record.id = f"{base}-{copy}"
        if record.id in line_of:
            raise RecordError(
                f"{where}: the id {record.id!r} is on line {line_of[record.id]} too. Ids tell records apart "
                "when a run is continued: give each row its own, or remove the field 'id' from all rows."
            )
        line_of[record.id] = number
        record.where = where
        yield start, record
    if not line_of:
        raise RecordError(f"{path}: the file has no records. {kind.why_none}")


def holds_pairs(path: str | Path) -> bool:
    """Whether the first row of a file is a preference pair. Raises RecordError as `read_records` does."""
    return "chosen" in next((row for _, _, row in scan_rows(path)), {})


def kind_of(path: str | Path) -> type[Task | Trajectory | TurnCandidates | PreferencePair]:
    """The kind of records in a file, by the fields of its first row.

    Raises:
        UserError: The file is missing, empty or holds something else.
    """
    number, _, row = next(scan_rows(path), (0, 0, None))
    if row is None:
        raise UserError(f"{path} has no records. Was the step that writes it finished?")
    for mark, kind in MARKS.items():
        if mark in row:
            return kind
    raise UserError(
        f"{path}, line {number}: neither a trajectory ('dialogue_history'), nor candidates ('additional_outputs'), nor "
        f"a preference pair ('chosen'), nor a task. Fields found: {', '.join(map(repr, row)) or 'none'}."
    )


def read_json(text: bytes | str) -> Any:
    """A JSON value.

    Raises:
        ValueError: Broken JSON, NaN, a number that is too large to be one, bad UTF-8, and an object with a key twice.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_with_each_key_once)


def parse_row(line: bytes | str, where: str) -> dict:
    """One line of JSON as a dict.

    Raises:
        RecordError: What `read_json` refuses, and anything but an object.
    """
    try:
        row = read_json(line)
    except (ValueError, RecursionError) as error:
        found = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        if (b"\0" if isinstance(line, bytes) else "\0") in line:  # type: ignore[operator]
            found = "it holds NUL bytes, as after a power cut or a full disk"
        raise RecordError(
            f"{where}: not a line of JSON ({found}). Each line must be one JSON object: repair or remove it."
        ) from error
    if not isinstance(row, dict):
        raise RecordError(f"{where}: found {shown(row)}, expected a JSON object with named fields.")
    return row


def scan_rows(path: str | Path) -> Iterator[tuple[int, int, dict]]:
    """(line number, byte at which it starts, row) of each line that is not blank. Raises RecordError as `parse_row`."""
    local = local_path(path)
    if not local.is_file():
        found = "is a directory" if local.is_dir() else "does not exist"
        raise RecordError(f"{path} {found}. A JSONL file of records was expected: check the path.")
    end = 0
    for number, line in enumerate(lines_of(local), start=1):
        start, end = end, end + len(line)
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if line.strip():
            yield number, start, parse_row(line, f"{path}, line {number}")


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated[:80]!r} is there twice")
    return row


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if value in (math.inf, -math.inf):
        raise ValueError(f"{number[:40]} is beyond the range of numbers")
    return value
