"""Progress of long work: a bar on a terminal; in a file or a pipe, a few lines at first, then one per half minute."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TextIO

from tqdm import tqdm

TERMINAL_INTERVAL, FIRST_INTERVAL, FILE_INTERVAL = 1.0, 2.0, 30.0  # seconds between two updates


class ProgressLines(tqdm):
    """A bar of tqdm as whole lines: after 2, 6, 14, 30 seconds, every half minute, and at the end if any was done."""

    disable: bool
    mininterval: float
    monitor_interval = 0  # no thread that looks after the intervals

    def __init__(self, iterable: Iterable | None = None, **settings: Any) -> None:
        rarely = {"mininterval": FIRST_INTERVAL, "miniters": 0, "delay": FIRST_INTERVAL}
        super().__init__(iterable, ncols=0, smoothing=0, **rarely, **settings)

    def __iter__(self) -> Iterator:
        """The loop of tqdm keeps the first interval, and would count again what a longer one has not shown yet."""
        try:
            for one in self.iterable:
                yield one
                self.update()
        finally:
            self.close()

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        print(self, file=self.fp, flush=True)
        self.mininterval = min(FILE_INTERVAL, 2 * self.mininterval)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Set the text at the end of each line. It is shown with the next line, which may be due now."""
        super().set_postfix_str(s, refresh=False)
        self.update(0)

    def close(self) -> None:
        if not self.disable and self.n > self.initial:
            self.display()
        self.disable = True


def progress_bar(iterable: Iterable | None = None, file: TextIO | None = None, **settings: Any) -> tqdm:
    """A `tqdm` bar if `file` (default: stderr) is a terminal, else `ProgressLines`.

    Other arguments are those of tqdm. TQDM_DISABLE may be set after tqdm was imported.
    """
    file = file or sys.stderr
    settings.setdefault("disable", bool(os.environ.get("TQDM_DISABLE")))
    if not file.isatty():
        return ProgressLines(iterable, file=file, **settings)
    return tqdm(iterable, file=file, mininterval=TERMINAL_INTERVAL, dynamic_ncols=True, **settings)


@contextlib.asynccontextmanager
async def shown_regularly(show: Callable[[], None]) -> AsyncIterator[None]:
    """Call `show` every second while the coroutines inside work, also if nothing comes from them."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(TERMINAL_INTERVAL)
            show()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
