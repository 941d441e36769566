"""What this process has read of its input files, so that a manifest names the bytes that were used.

A file that is replaced while a step reads it would otherwise be recorded with the hash of another content.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from sweet_rl.runs.errors import UserError

_State = tuple[int, ...]
_read: dict[str, tuple[_State, str | None]] = {}


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file. Its hash is that of these bytes, and is known once all of them are read."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        state = _state(os.fstat(file.fileno()))
        _read[os.path.realpath(path)] = (state, None)
        for line in file:
            digest.update(line)
            yield line
        if _state(os.fstat(file.fileno())) == state:  # else `hash_as_read` refuses it
            _read[os.path.realpath(path)] = (state, digest.hexdigest())


def hash_as_read(path: Path) -> str:
    """The SHA-256 of a file, if this process has read it that of what it has read.

    Raises:
        UserError: The file is not the one that was read.
    """
    key = os.path.realpath(path)
    known, digest = _read.get(key, (None, None))
    with open(path, "rb") as file:
        state = _state(os.fstat(file.fileno()))
        if digest is None or known != state:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if known not in (None, state) or _state(os.fstat(file.fileno())) != state:
            forget(path)
            raise UserError(f"{path} was changed or replaced while it was read. Give the same command again.")
    return digest


def forget(path: Path) -> None:
    """Forget what was read of a file, because this process writes it."""
    _read.pop(os.path.realpath(path), None)


def _state(status: os.stat_result) -> _State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
