"""Seconds of each optimiser step, and the peak memory. Both sides of benchmarks/dpo.py use it."""

import resource
import time

import torch


class Clock:
    """Call `step` after each optimiser step.

    Attributes:
        seconds: of each step, by the clock and of the processors.
    """

    def __init__(self):
        self.seconds: list[tuple[float, float]] = []
        self.last = self.now()

    def now(self) -> tuple[float, float]:
        """The clock and the processor time of this process, when the GPU has done its work."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()

    def step(self) -> None:
        now = self.now()
        self.seconds.append((now[0] - self.last[0], now[1] - self.last[1]))
        self.last = now


def peak_bytes() -> int:
    """The most memory that this process had: of the GPU, or of the machine without one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
