"""Progress of long work: a bar of tqdm, which in a log file is written every half minute."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


def progress_bar(iterable: Iterable | None = None, **settings: Any) -> tqdm:
    """A bar of tqdm, updated every second on a terminal and every half minute elsewhere. Arguments as for tqdm."""
    seconds = 1 if sys.stderr.isatty() else 30
    return tqdm(iterable, mininterval=seconds, maxinterval=seconds, dynamic_ncols=True, **settings)
