"""The order of an epoch: examples with the same prompt stay together, similar lengths share a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweet_rl.models.log_probs.rows import group_indices
from sweet_rl.training.objective import Examples

BATCHES_PER_BUCKET = 32


def prompt_groups(examples: Examples, indices: np.ndarray, limit: int) -> tuple[list[np.ndarray], list[int]]:
    """Group those of the `indices` that have the same prompt.

    Args:
        examples: All examples.
        indices: Indices of the examples to group, int64.
        limit: Largest number of examples in a group.

    Returns:
        The groups, each an array of indices, and the length in tokens of the longest example of each.
    """
    prompts, lengths = examples.prompts, examples.lengths  # computed when they are read
    same = group_indices([prompts[i] for i in indices])
    groups = [indices[group[start : start + limit]] for group in same for start in range(0, len(group), limit)]
    return groups, [max(lengths[i] for i in group) for group in groups]


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
