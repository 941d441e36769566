"""The micro-batches of each process: the same sums of losses, however many processes and micro-batches there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sweet_rl.runs.errors import UserError
from sweet_rl.training.settings import TrainingSettings

FILLER = -1
"""Marker for padding examples that equalise micro-batch counts over the processes."""


def divided_batch(settings: TrainingSettings, processes: int) -> tuple[int, int]:
    """The examples of a micro-batch, and the micro-batches of a step, of each process.

    Raises UserError if the batch cannot be divided like this.
    """
    per_process, rest = divmod(settings.train_batch_size, processes)
    micro = min(settings.micro_train_batch_size or per_process, per_process)
    if rest or per_process < 1 or per_process % micro:
        raise UserError(
            f"--train_batch_size {settings.train_batch_size} is not a multiple of --micro_train_batch_size "
            f"{settings.micro_train_batch_size or 1} times {processes} process(es). Choose sizes that divide."
        )
    return micro, per_process // micro


def step_batches(
    steps: Iterable[Sequence[int] | np.ndarray], micro_size: int, process: int = 0, processes: int = 1
) -> Iterator[list[list[int]]]:
    """Yield the micro-batches of one process, lists of indices, for each step.

    `steps` are the examples of each optimiser step over all processes. They are divided evenly among the processes, and
    the part of each into micro-batches. All processes have equally many, because they average gradients and gather
    sharded weights together: a process without examples for a micro-batch gets [FILLER, example], which must not count.
    """
    for step in map(np.asarray, steps):
        own = np.array_split(step, processes)[process].tolist()
        largest_part = -(-len(step) // processes)
        yield [own[at : at + micro_size] or [FILLER, int(step[0])] for at in range(0, largest_part, micro_size)]
