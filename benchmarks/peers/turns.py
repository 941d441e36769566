"""The turns of a program that is timed beside another one. Both sides of benchmarks/dpo.py use it."""

import resource
import sys
import time

import torch


class Turns:
    """After each `steps` optimiser steps the program says so, and waits for a line on its standard input.

    Attributes:
        seconds: of each turn, by the clock and of the processors.
    """

    def __init__(self, steps: int):
        self.steps, self.done = steps, 0
        self.seconds: list[tuple[float, float]] = []
        self.began = self.now()

    def now(self) -> tuple[float, float]:
        """The clock and the processor time of this process, when the GPU has done its work."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    def step(self) -> None:
        """Call this after each optimiser step."""
        self.done += 1
        if self.done % self.steps:
            return
        ended = self.now()
        self.seconds.append((ended[0] - self.began[0], ended[1] - self.began[1]))
        print("\nover", flush=True)
        sys.stdin.readline()
        self.began = self.now()


def peak_bytes() -> int:
    """The most memory that this process had: of the GPU, or of the machine without one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
