"""A JSONL file as the viewer reads it: the kind of its records, and access to single records by file offset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from sweet_rl.errors import UserError
from sweet_rl.names import local_path
from sweet_rl.records import PreferencePair, Trajectory, TurnCandidates, parse_row, scan_records, scan_rows

Kind = TypeVar("Kind", Trajectory, TurnCandidates, PreferencePair)
MARKS = (("dialogue_history", Trajectory), ("additional_outputs", TurnCandidates), ("chosen", PreferencePair))


@dataclass(frozen=True)
class Place:
    """The byte at which a record's line starts, and its id (which released rows do not hold)."""

    offset: int
    id: str


class RecordFile(Generic[Kind]):
    """A JSONL file of one kind of record: read once in order, then by place. The file is never written.

    Raises UserError if the file has changed since it was opened, because the offsets are then wrong.
    """

    def __init__(self, path: str | Path, kind: type[Kind], limit: int | None = None) -> None:
        self.path, self.limit = local_path(path), limit
        self.kind: type[Kind] = kind
        self._seen = self._state()

    def scan(self) -> Iterator[tuple[Place, Kind]]:
        """Every record in order. Raises RecordError, naming the line, at the first bad one."""
        for offset, record in scan_records(self.path, self.kind, self.limit):
            yield Place(offset, record.id), record

    def read(self, place: Place) -> Kind:
        """The record at a place found by `scan`."""
        if self._state() != self._seen:
            raise UserError(f"{self.path} has changed since it was opened. Start the viewer again.")
        with open(self.path, "rb") as file:
            file.seek(place.offset)
            line = file.readline().removeprefix(b"\xef\xbb\xbf")
        record = self.kind.from_dict(parse_row(line, str(self.path)), f"{self.path}, byte {place.offset}")
        record.id = place.id
        return record

    def _state(self) -> tuple[int, int]:
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}. Give the path of a JSONL file of records.") from error
        return status.st_size, status.st_mtime_ns


def kind_of(path: str | Path) -> type:
    """Trajectory, TurnCandidates or PreferencePair, by the fields of the file's first record.

    Raises:
        UserError: the file is missing, empty or holds something else.
    """
    number, _, row = next(scan_rows(path), (0, 0, None))
    if row is None:
        raise UserError(f"{path} has no records. Was the step that writes it finished?")
    for mark, kind in MARKS:
        if mark in row:
            return kind
    if "problem_description" in row:
        raise UserError(
            f"{path} holds tasks: there is no dialogue in it to look at. Play some with simulate_interactions.py."
        )
    raise UserError(
        f"{path}, line {number}: neither a trajectory ('dialogue_history'), nor candidates ('additional_outputs'), nor "
        f"a preference pair ('chosen'). Fields found: {', '.join(map(repr, row)) or 'none'}."
    )
