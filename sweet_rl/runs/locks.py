"""Locks on files, and on the GPUs of a machine, that last as long as any process has them open."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.errors import UserError


def lock_file(path: str | Path, wait: bool = True) -> int | None:
    """Lock a file for appending; it and its folder are made.

    Returns:
        The descriptor that holds the lock; a child that inherits it holds the lock too. None if another process has the
        lock and `wait` is false.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return lock
    except BlockingIOError:
        os.close(lock)
        return None


def lock_gpus(count: int, pool: Sequence[str], folder: str | Path | None = None) -> dict[str, int]:
    """Lock `count` GPUs of this machine. Whoever asks first is served first: small steps do not starve a large one.

    Args:
        pool: Numbers of the GPUs to choose from.
        folder: Folder of the lock files; default: one for each user below the folder of temporary files.

    Returns:
        The descriptors that hold the locks, by the number of the GPU.

    Raises:
        UserError: the pool has fewer GPUs.
    """
    if count > len(pool):
        raise UserError(f"{count} GPUs are wanted, but there are {len(pool)}: {', '.join(pool) or 'none'}.")
    folder = Path(folder or Path(tempfile.gettempdir()) / f"sweet_rl-gpus-{os.getuid()}")
    queue = lock_file(folder / "queue")
    taken: dict[str, int] = {}
    while len(taken) < count:
        for gpu in pool:
            if len(taken) < count and gpu not in taken:
                lock = lock_file(folder / gpu, wait=False)
                if lock is not None:
                    taken[gpu] = lock
        if len(taken) < count:
            time.sleep(0.5)
    if queue is not None:
        os.close(queue)
    return taken
