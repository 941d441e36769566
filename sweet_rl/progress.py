"""Progress of long work: a bar on a terminal; in a file or a pipe, one line at most every half minute."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from typing import Any, TextIO

from tqdm import tqdm

TERMINAL_INTERVAL, FILE_INTERVAL = 1.0, 30.0  # seconds between two updates


class ProgressLines(AbstractContextManager):
    """Writes progress as whole lines: at most one every half minute, and one at the end. Used as `tqdm` is.

    Args:
        iterable: items to pass through; None if `update` is called instead.
        total: number of items, if known.
        initial: items that were done before.
        desc: what is counted; the beginning of each line.
        unit: name of one item.
        file: where the lines go; default: stderr.
        disable: write nothing. By default what TQDM_DISABLE says, which holds for bars too.
    """

    def __init__(
        self,
        iterable: Iterable | None = None,
        *,
        total: int | None = None,
        initial: int = 0,
        desc: str = "",
        unit: str = "it",
        file: TextIO | None = None,
        disable: bool | None = None,
    ) -> None:
        self.total = len(iterable) if total is None and isinstance(iterable, Sized) else total
        self.n = self.initial = initial
        self._iterable: Iterable = () if iterable is None else iterable
        self._desc, self._unit = desc, unit
        self._disable = bool(os.environ.get("TQDM_DISABLE")) if disable is None else disable
        self._file, self._postfix = file or sys.stderr, ""
        self._start = self._shown = time.monotonic()

    def update(self, n: int = 1) -> None:
        """Count `n` more items."""
        self.n += n
        if time.monotonic() - self._shown >= FILE_INTERVAL:
            self._write()

    def set_postfix_str(self, text: str = "", refresh: bool = True) -> None:
        """Set the text at the end of each line. It is shown with the next line, which may be due now."""
        self._postfix = text
        self.update(0)

    def close(self) -> None:
        """Write the last line, unless there was nothing to do. Later calls do nothing."""
        if self.n > self.initial:
            self._write()
        self._disable = True

    def _write(self) -> None:
        self._shown = time.monotonic()
        if not self._disable:
            text = tqdm.format_meter(
                self.n,
                self.total,
                self._shown - self._start,
                prefix=self._desc,
                unit=self._unit,
                initial=self.initial,
                postfix=self._postfix,
                ncols=0,
            )
            print(text, file=self._file, flush=True)

    def __iter__(self) -> Iterator[Any]:
        with self:
            for item in self._iterable:
                yield item
                self.update()

    def __exit__(self, *_: object) -> None:
        self.close()


def progress_bar(iterable: Iterable | None = None, file: TextIO | None = None, **settings: Any) -> tqdm | ProgressLines:
    """A `tqdm` bar if `file` (default: stderr) is a terminal, else `ProgressLines`. Arguments as of ProgressLines."""
    file = file or sys.stderr
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
