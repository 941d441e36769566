"""The order of an epoch: examples with the same prompt stay together, similar lengths share a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch.utils.data import Sampler

from sweet_rl.models.log_probs.rows import group_indices

BATCHES_PER_BUCKET = 32


def prompt_groups(prompts: Sequence[bytes], limit: int) -> list[np.ndarray]:
    """Indices of equal prompts, in groups of at most `limit`."""
    groups = group_indices(prompts)
    return [np.asarray(group[i : i + limit]) for group in groups for i in range(0, len(group), limit)]


def epoch_order(
    groups: Sequence[np.ndarray], costs: Sequence[int], batch_size: int, seed: int, epoch: int
) -> np.ndarray:
    """Every index of every group once, so that consecutive `batch_size` of them make a good batch.

    Groups are shuffled; within buckets of 32 batches they are sorted by cost and cut into batches, whose order is
    shuffled again. A group is cut if a batch is full.

    Args:
        groups: Indices of examples that should share a batch, one array per group.
        costs: Length of each group in tokens.
        batch_size: Number of examples per optimiser step.
        seed: Random seed of the order.
        epoch: Number of the epoch; each epoch has another order.

    Returns:
        int64 [number of examples].
    """
    random = np.random.default_rng([seed, epoch])
    shuffled = random.permutation(len(groups))
    sizes = np.asarray([len(groups[g]) for g in shuffled])
    bucket = (np.cumsum(sizes) - sizes) // (batch_size * BATCHES_PER_BUCKET)
    order = shuffled[np.lexsort((np.asarray(costs)[shuffled], bucket))]
    flat = np.concatenate([random.permutation(groups[g]) for g in order])
    whole = len(flat) // batch_size * batch_size
    batches = random.permutation(flat[:whole].reshape(-1, batch_size), axis=0)
    return np.concatenate([batches.reshape(-1), flat[whole:]])


@dataclass
class EpochOrder(Sampler[int]):
    """The sampler of `epoch_order`; `epoch()` is the epoch that begins."""

    groups: Sequence[np.ndarray]
    costs: Sequence[int]
    batch_size: int
    seed: int
    epoch: Callable[[], int]

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    def __iter__(self) -> Iterator[int]:
        return iter(epoch_order(self.groups, self.costs, self.batch_size, self.seed, self.epoch()).tolist())
