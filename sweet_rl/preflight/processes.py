"""Checks that may hang or end their process (a compiler, a driver, NCCL) run in processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any

from sweet_rl.errors import first_line


def why_failed(work: Callable[..., str | None], arguments: Sequence[tuple], seconds: float) -> str | None:
    """Run `work` in one process for each tuple of arguments, at the same time.

    Args:
        work: Function that can be pickled; it returns the reason why it failed, or None.
        arguments: Arguments of each process.
        seconds: Time that all of them may take; then they are ended.

    Returns:
        The reason of the first process that failed; None if all worked.
    """
    context = multiprocessing.get_context("spawn")
    running = []
    until = time.monotonic() + seconds
    try:
        for given in arguments:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(work, given, there), daemon=True)
            process.start()
            there.close()
            running.append((process, here))
        for process, here in running:
            if not here.poll(max(0.0, until - time.monotonic())):
                return f"no result after {seconds:.0f} seconds"
            try:
                reason = here.recv()
            except EOFError:
                process.join()
                reason = f"the process ended with exit code {process.exitcode}"
            if reason is not None:
                return reason
        return None
    finally:
        for process, _ in running:
            process.kill()
            process.join()


def _send(work: Callable[..., str | None], given: tuple, pipe: Any) -> None:
    try:
        reason = work(*given)
    except Exception as error:
        reason = first_line(error)[:300]
    pipe.send(reason)
