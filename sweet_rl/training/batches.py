"""The order of an epoch, and the micro-batches of each process.

Steps are of equal size, and examples with the same prompt stay together. The sums of losses are the same, however many
processes and micro-batches there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sweet_rl.models.log_probs.rows import group_indices
from sweet_rl.runs.errors import UserError
from sweet_rl.training.examples import Examples
from sweet_rl.training.settings import TrainingSettings

STEPS_PER_BUCKET = 32
BUCKETS = 4
FILLER = -1
"""Marker for padding examples that equalise micro-batch counts over the processes."""


def prompt_groups(examples: Examples, limit: int) -> list[np.ndarray]:
    """The indices of examples with the same prompt, at most `limit` in a group."""
    same = group_indices(examples.prompts)
    return [np.asarray(group[at : at + limit]) for group in same for at in range(0, len(group), limit)]


def epoch_steps(
    groups: Sequence[np.ndarray], lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """The examples of each step of an epoch: every example once, in steps whose sizes differ by at most one.

    Groups are shuffled, sorted by length within buckets of steps, and cut into steps, whose order is shuffled again. A
    bucket has at most 32 steps and a quarter of the epoch, so that its steps have other examples in each epoch; an
    epoch of fewer than eight steps is not sorted. A group is cut if a step is full. The first epoch begins with the
    step of the longest example, so that a lack of memory shows early.

    Args:
        groups: Indices of examples that should share a step, one array per group.
        lengths: Length in tokens of each example, by its index.
        batch_size: Largest number of examples per optimiser step.
        seed: Random seed of the order.
        epoch: Number of the epoch; each epoch has another order.
    """
    random = np.random.default_rng([seed, epoch])
    shuffled = [random.permutation(groups[i]) for i in random.permutation(len(groups))]
    tokens = np.asarray(lengths)
    examples = sum(len(group) for group in groups)
    steps = math.ceil(examples / batch_size)
    bucket_steps = min(STEPS_PER_BUCKET, steps // BUCKETS)
    if bucket_steps > 1:
        ends = np.cumsum([len(group) for group in shuffled])
        buckets = (ends - 1) * steps // (examples * bucket_steps)
        longest_of_group = [tokens[group].max() for group in shuffled]
        shuffled = [shuffled[i] for i in np.lexsort((longest_of_group, buckets))]

    smaller = -examples % steps
    sizes = np.full(steps, -(-examples // steps))
    start = random.integers(steps - smaller + 1)  # they follow each other, else nearly every group would be cut
    sizes[start : start + smaller] -= 1
    parts = np.split(np.concatenate(shuffled), np.cumsum(sizes)[:-1])
    parts = [parts[i] for i in random.permutation(steps)]
    if epoch == 0:
        first = max(range(steps), key=lambda step: tokens[parts[step]].max())
        parts.insert(0, parts.pop(first))
    return parts


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
