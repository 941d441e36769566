"""Examples for training and examples for evaluation, by task: siblings never stand on both sides."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from sweet_rl.errors import UserError
from sweet_rl.records import seed_for


def split_by_task(
    tasks: Sequence[str | None], fraction: float, seed: int, path: str = "the dataset"
) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on and indices to evaluate on, int64, in their order.

    tasks: each example's task. fraction: of the tasks, drawn with `seed`, that are held out; 0 holds out none.
    Raises UserError for another fraction, for an example whose task is not known, and where a side would be empty.
    """
    everything = np.arange(len(tasks))
    if fraction == 0:
        return everything, everything[:0]
    if not 0 < fraction < 1:
        raise UserError(f"--eval_fraction is {fraction}; it must be at least 0 and below 1.")
    unknown = next((i for i, task in enumerate(tasks) if task is None), None)
    if unknown is not None:
        raise UserError(
            f"{path}: example {unknown + 1} has no 'task_id', so its siblings are not known and might be trained on. "
            "Give every row its task's id, or leave out --eval_fraction."
        )
    names = sorted(set(tasks))
    if len(names) < 2:
        raise UserError(f"{path}: all examples are of one task; --eval_fraction needs two or more.")
    random.Random(seed_for(seed, "eval_fraction")).shuffle(names)
    held_out = set(names[: min(len(names) - 1, max(1, round(fraction * len(names))))])
    mask = np.asarray([task in held_out for task in tasks])
    return everything[~mask], everything[mask]
