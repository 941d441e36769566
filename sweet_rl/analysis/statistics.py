"""Statistics over tasks: bootstrap intervals, best of k, paired differences.

Samples of one task are not independent of each other, so every interval and test resamples tasks, never
dialogues: the values of a task are first averaged. Pure functions; the same seed gives the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb

import numpy as np

from sweet_rl.errors import UserError

RESAMPLES = 10_000
EXACT_UP_TO = 14


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks with its interval; p is the two-sided p-value of a difference, else None."""

    mean: float
    low: float
    high: float
    tasks: int
    p: float | None = None

    def to_dict(self) -> dict:
        row = {"mean": self.mean, "low": self.low, "high": self.high, "tasks": self.tasks}
        return row if self.p is None else row | {"p": self.p}


def task_means(values_by_task: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean of each task's values; tasks without a value are left out."""
    return {task: float(np.mean(values)) for task, values in values_by_task.items() if len(values)}


def bootstrap_interval(
    values_by_task: Mapping[str, Sequence[float] | float],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """The mean over tasks and its percentile bootstrap interval over tasks.

    values_by_task: a number, or the numbers of its samples, a task. Raises UserError where there is no value.
    """
    means = np.array(list(_as_means(values_by_task).values()), dtype=np.float64)
    if not len(means):
        raise UserError("There is no graded task to compute an interval over: was any dialogue graded?")
    generator = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // len(means))
    resampled = np.concatenate(
        [
            means[generator.integers(0, len(means), (min(chunk, resamples - start), len(means)))].mean(axis=1)
            for start in range(0, resamples, chunk)
        ]
    )
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(means.mean()), float(low), float(high), len(means))


def best_of_k(values: Sequence[float], k: int) -> float:
    """The expected maximum of k of the n values drawn without replacement, over all such draws (unbiased).

    For k = n it is the maximum; for values 0 and 1 with c ones it is 1 - C(n-c, k) / C(n, k).
    Raises ValueError unless 1 <= k <= n.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise ValueError(f"best of {k} of {n} values")
    return sum(value * comb(i, k - 1) for i, value in enumerate(sorted(values))) / comb(n, k)


def check_k(samples_by_task: Mapping[str, int], k: int) -> None:
    """Raises UserError, naming the task, unless k divides the number of samples of every task."""
    if k < 1:
        raise UserError(f"--k is {k}; it must be at least 1.")
    for task, samples in samples_by_task.items():
        if samples % k:
            raise UserError(
                f"--k is {k}, but task {task} has {samples} dialogues, which {k} does not divide. "
                "Choose a --k that divides the number of dialogues of every task."
            )


def paired_difference(
    a_by_task: Mapping[str, Sequence[float] | float],
    b_by_task: Mapping[str, Sequence[float] | float],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """The mean of a - b over tasks, its bootstrap interval, and the p-value of a sign-flip test.

    The test asks how often a mean at least as far from 0 comes out when each task's difference gets a random
    sign: all sign patterns are counted for up to 14 differing tasks, else `resamples` random ones.
    Raises UserError where the two do not have the same tasks.
    """
    a, b = _as_means(a_by_task), _as_means(b_by_task)
    if a.keys() != b.keys():
        odd = sorted(a.keys() ^ b.keys())
        raise UserError(
            f"The two runs are not over the same tasks: {len(odd)} are in only one, the first is {odd[0]}. "
            "Evaluate both on the same tasks file."
        )
    differences = {task: a[task] - b[task] for task in a}
    estimate = bootstrap_interval(differences, level, resamples, seed)
    p = _sign_flip_p(np.array(list(differences.values())), resamples, seed)
    return Estimate(estimate.mean, estimate.low, estimate.high, estimate.tasks, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number by Holm's step-down method, in their order.

    The i-th smallest of m (from 0) counts m - i times, none less than a smaller one, none more than 1; a family
    of comparisons is tested at 5 % by holding each adjusted value against 0.05.
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def win_share(a: Sequence[float], b: Sequence[float]) -> float:
    """How often a random value of `a` is above a random one of `b`; ties count half. Raises ValueError for none."""
    if not len(a) or not len(b):
        raise ValueError("a share of wins needs values on both sides")
    gaps = np.subtract.outer(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    return float((np.sign(gaps) + 1).mean() / 2)


def _sign_flip_p(differences: np.ndarray, resamples: int, seed: int) -> float:
    differences = differences[differences != 0]
    n, observed = len(differences), abs(differences.sum()) - 1e-12
    if n == 0:
        return 1.0
    if n <= EXACT_UP_TO:
        signs = np.array(list(product((-1.0, 1.0), repeat=n)))
        return float((np.abs(signs @ differences) >= observed).mean())
    generator = np.random.default_rng([seed, 1])
    chunk = max(1, 2_000_000 // n)
    hits = 0
    for start in range(0, resamples, chunk):
        signs = generator.integers(0, 2, (min(chunk, resamples - start), n)) * 2 - 1
        hits += int((np.abs(signs @ differences) >= observed).sum())
    return (hits + 1) / (resamples + 1)


def _as_means(values_by_task: Mapping[str, Sequence[float] | float]) -> dict[str, float]:
    listed = {task: [v] if isinstance(v, int | float) else v for task, v in values_by_task.items()}
    return task_means(listed)


def percent_text(estimate: Mapping[str, float]) -> str:
    """An `Estimate` as a dict, for people: 12.3 %  (95 %: 10.0 to 14.6)."""
    return f"{100 * estimate['mean']:.1f} %  (95 %: {100 * estimate['low']:.1f} to {100 * estimate['high']:.1f})"
