"""What runs over a file and over a model directory share: the lock of their only writer, the manifest, the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import Manifest, hash_input


class Output(AbstractContextManager):
    """An output that this process alone writes.

    An output that was begun here is removed again, with the folders made for it, if the work raises before anything was
    written: a refused command leaves nothing behind.
    """

    def __init__(self, path: Path, manifest: Manifest, lock: int, made: Sequence[Path]):
        self.path, self.manifest, self._lock = path, manifest, lock
        self._made = made  # what `remove_made` removes; nothing if an older output is continued or replaced

    @property
    def complete(self) -> bool:
        """Whether the run is finished: nothing is left to do."""
        return self.manifest.complete

    @property
    def summary(self) -> dict | None:
        """The summary that `finish` was given, in this process or an earlier one."""
        return self.manifest.content.get("summary")

    def finish(self, summary: dict | None = None) -> None:
        """Mark the run as finished."""
        self.manifest.content["sha256"] = hash_input(self.path)
        self.manifest.finish(summary or {})

    def close(self) -> None:
        """Release the lock. An unfinished run can be continued."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def empty(self) -> bool:
        """Whether nothing was written to it yet."""
        raise NotImplementedError

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._made and self.empty:
            remove_made(self._made)
        self.close()


def missing_folders(path: Path) -> list[Path]:
    """The folder and those above it that do not exist, the deepest first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def remove_made(paths: Sequence[Path]) -> None:
    """Remove files, and folders unless something is in them."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def give_up(lock: int, made: Sequence[Path]) -> None:
    """Remove what was made for an output that cannot be opened, and release its lock; -1 is no lock."""
    remove_made(made)
    if lock >= 0:
        os.close(lock)


def open_locked(path: Path, flags: int) -> int:
    """Open an output and lock it for this process. Raises UserError if another process has it."""
    lock = os.open(path, flags, 0o644)
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):  # not replaced since it was opened
            return lock
    os.close(lock)
    raise UserError(f"{path} is being written by another process. Wait for it, or choose another path.")
