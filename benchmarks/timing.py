"""Timing of several ways to do the same work: in turns, so that other load of the machine meets all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Timed:
    """One way: what it returned, and the seconds of each repeat by the clock and of the processors."""

    result: Any = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def in_turns(works: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timed]:
    """Call each of `works` once untimed, then all of them one after the other, `repeats` times."""
    found = {name: Timed(work()) for name, work in works.items()}
    for _ in range(repeats):
        for name, work in works.items():
            _synchronize()
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            _synchronize()
            found[name].wall.append(time.perf_counter() - wall)
            found[name].cpu.append(time.process_time() - cpu)
    return found


def ratios(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """How many times faster `fast` was in each repeat."""
    return [a / b for a, b in zip(slow, fast, strict=True)]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range as text: "4.10 (3.90 to 4.35)"."""
    middle, low, high = (f"{one:.{digits}f}" for one in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
