"""Progress of long work: a bar of tqdm, which in a log file is written every half minute."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from tqdm import tqdm

TERMINAL_INTERVAL, FILE_INTERVAL = 1.0, 30.0  # seconds between two updates


def progress_bar(iterable: Iterable | None = None, file: TextIO | None = None, **settings: Any) -> tqdm:
    """A bar of tqdm, updated every second on a terminal and every half minute elsewhere. Arguments as for tqdm."""
    file = file or sys.stderr
    interval = _interval(file)
    return tqdm(iterable, file=file, mininterval=interval, maxinterval=interval, dynamic_ncols=True, **settings)


def _interval(file: TextIO) -> float:
    return TERMINAL_INTERVAL if file.isatty() else FILE_INTERVAL
