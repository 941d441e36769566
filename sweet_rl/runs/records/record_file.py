"""Records of a file that does not fit in memory: read once in order, then one by one by their place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.names import local_path
from sweet_rl.runs.records.files import parse_row, scan_records
from sweet_rl.runs.records.schema import PreferencePair, Task, Trajectory, TurnCandidates

Kind = TypeVar("Kind", Trajectory, TurnCandidates, PreferencePair)


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
            raise UserError(f"{self.path} has changed since it was opened. Give the command again.")
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


class TrajectoryFile:
    """A file of trajectories, of which only what is compared and counted stays in memory (`Trajectory.light`).

    Attributes:
        light: The trajectories that `scan` has read, in order.
    """

    def __init__(self, path: str | Path, limit: int | None = None) -> None:
        self._file = RecordFile(path, Trajectory, limit)
        self._places: dict[str, Place] = {}
        self._tasks: dict[str, Task] = {}
        self.light: list[Trajectory] = []

    def scan(self) -> Iterator[Trajectory]:
        """Every trajectory in order, whole. Raises RecordError, naming the line, at the first bad one."""
        for place, trajectory in self._file.scan():
            self._places[place.id] = place
            self.light.append(trajectory.light(self._tasks))
            yield trajectory

    def whole(self, light: Trajectory) -> Trajectory:
        """A trajectory again, with all that the file holds of it."""
        record = self._file.read(self._places[light.id])
        record.where = light.where
        return record
