"""The micro-batches of each process: the same sums of losses, however many processes and micro-batches there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

FILLER = -1
"""Marker for padding examples that equalise micro-batch counts over the processes."""


class Order(Protocol):
    """The indices of an epoch's examples, in an order that may differ each time they are read."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


@dataclass
class ProcessBatches:
    """The batch sampler of one process.

    Each step's examples are divided evenly among the processes, and each share into micro-batches. In the last step of
    an epoch there may be fewer examples than `step_size`. All processes then have as many micro-batches as the one with
    the largest share, because gradients are averaged and ZeRO-3 gathers weights in step; a process without examples
    for one gets [FILLER, example], which must not count.

    Args:
        order: All examples in the order of an epoch; read again for each epoch.
        step_size: Number of examples per optimiser step, over all processes.
        micro_size: Number of examples that one process computes at the same time.
        process: Number of this process, from 0.
        processes: Number of processes.
    """

    order: Order
    step_size: int
    micro_size: int
    process: int = 0
    processes: int = 1

    def __len__(self) -> int:
        """Micro-batches of an epoch, the same for all processes."""
        whole, rest = divmod(len(self.order), self.step_size)
        return whole * self._micro_batches(self.step_size) + self._micro_batches(rest)

    def __iter__(self) -> Iterator[list[int]]:
        order = list(self.order)
        for start in range(0, len(order), self.step_size):
            step = order[start : start + self.step_size]
            own = np.array_split(step, self.processes)[self.process].tolist()
            for number in range(self._micro_batches(len(step))):
                micro = own[number * self.micro_size : (number + 1) * self.micro_size]
                yield micro or [FILLER, step[0]]

    def _micro_batches(self, examples: int) -> int:
        """Micro-batches of the largest share of a step with so many examples."""
        share = -(-examples // self.processes)
        return -(-share // self.micro_size)
