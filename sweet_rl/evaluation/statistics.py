"""Statistics over tasks: bootstrap intervals, best of k, paired differences.

Dialogues of the same task are not independent. Every interval and test therefore averages the values of each task
first and resamples tasks, never dialogues. Pure functions; the same seed gives the same numbers.

A bootstrap of equal values has no width, whatever their number. There the interval is that of Wilson for a share that
no task has: at most z^2 / (n + z^2) of the tasks have another value, and that may be the lowest or the highest one
possible. Of a share (success, tests passed, similarity, wins) it reaches from 0 up to z^2 / (n + z^2), or from 1 down
to n / (n + z^2); a difference may be anything from -1 to 1. n counts tasks, not dialogues and not seeds: more of either
narrow nothing, and nothing is said about another training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from statistics import NormalDist

import numpy as np

from sweet_rl.runs.errors import UserError

RESAMPLES = 10_000
EXACT_UP_TO = 14  # differing tasks: 2**14 sign patterns are enumerated instead of sampled
BATCH = 200_000  # resampled values in memory at a time
ROUNDING = 1e-12  # a smaller difference of two means is of their floating-point numbers

ValuesByTask = Mapping[str, Sequence[float] | float]


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks with its interval."""

    mean: float
    low: float
    high: float
    tasks: int

    def to_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class DifferenceEstimate(Estimate):
    """A mean difference over tasks with its interval.

    Attributes:
        p: Two-sided p-value of the difference.
    """

    p: float


def task_means(values_by_task: ValuesByTask) -> dict[str, float]:
    """The mean of each task's values, sorted by task; tasks without a value are left out.

    Sorted, because a resample draws places: the same values in another order would have another interval.
    """
    return {task: float(np.mean(values)) for task, values in sorted(values_by_task.items()) if np.size(values)}


def bootstrap_interval(
    values_by_task: ValuesByTask,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    lowest: float = 0.0,
) -> Estimate:
    """The mean over tasks and its percentile bootstrap interval, resampled over tasks; `with_width` if all are equal.

    Args:
        values_by_task: One value for each task, or the values of its dialogues.
        level: Confidence level of the interval.
        resamples: Number of bootstrap resamples.
        seed: Seed of the resampling.
        lowest: Lowest possible value; the highest is 1.

    Raises:
        UserError: No task has a value, or one is not a finite number.
    """
    from scipy.stats import bootstrap  # about a second to import

    by_task = task_means(values_by_task)
    means = np.array(list(by_task.values()), dtype=np.float64)
    if not len(means):
        raise UserError("There is no graded task to compute an interval over: was any dialogue graded?")
    if not np.isfinite(means).all():
        task = next(task for task, mean in by_task.items() if not np.isfinite(mean))
        raise UserError(f"task {task} has the value {by_task[task]}, which is no number: grade its dialogues again.")
    mean = float(means.mean())
    if np.ptp(means) <= ROUNDING:
        return with_width(float(means[0]), len(means), level, lowest)
    interval = bootstrap(
        (means,),
        np.mean,
        confidence_level=level,
        n_resamples=resamples,
        batch=_batch(means),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(mean, float(interval.low), float(interval.high), len(means))


def with_width(value: float, tasks: int, level: float = 0.95, lowest: float = 0.0) -> Estimate:
    """The estimate of tasks that all have the same value; its interval is Wilson's (see the module).

    Args:
        value: Value of every task.
        tasks: Number of tasks.
        level: Confidence level of the interval.
        lowest: Lowest possible value; the highest is 1.
    """
    squared = NormalDist().inv_cdf((1 + level) / 2) ** 2
    others = squared / (tasks + squared)  # largest share of tasks with another value
    return Estimate(value, value - others * (value - lowest), value + others * (1 - value), tasks)


def paired_difference(
    a_by_task: ValuesByTask,
    b_by_task: ValuesByTask,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> DifferenceEstimate:
    """The mean of a - b over tasks, its bootstrap interval, and the p-value of a sign-flip permutation test.

    The test gives each task's difference a random sign and counts how often the mean is at least as far from 0 as
    the observed one. It enumerates all sign patterns for up to 14 differing tasks, else it samples `resamples` of them
    and adds one to both counts, so that p is never 0. Tasks without a difference do not enter the test.

    Raises:
        UserError: the two do not have the same tasks.
    """
    a, b = task_means(a_by_task), task_means(b_by_task)
    if a.keys() != b.keys():
        odd = sorted(a.keys() ^ b.keys())
        raise UserError(
            f"The two runs are not over the same tasks: {len(odd)} are in only one, the first is {odd[0]}. "
            "Evaluate both on the same tasks file."
        )
    differences = {task: a[task] - b[task] for task in a}
    estimate = bootstrap_interval(differences, level, resamples, seed, lowest=-1.0)
    p = _sign_flip_p(np.array(list(differences.values())), resamples, seed)
    return DifferenceEstimate(**asdict(estimate), p=p)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values in the same order, adjusted for their number with Holm's step-down method.

    The i-th smallest of m p-values (i from 0) is multiplied by m - i, is at least the adjusted value before it and
    at most 1. Rejecting those below 0.05 keeps the family-wise error rate at 5 %.
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def best_of_k(values: Sequence[float], k: int) -> float:
    """The expected maximum of k of the n values, drawn without replacement (unbiased).

    It is the maximum for k = n, and 1 - C(n-c, k) / C(n, k) for values 0 and 1 with c ones.

    Raises:
        ValueError: unless 1 <= k <= n.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise ValueError(f"best of {k} of {n} values")
    return sum(value * comb(i, k - 1) for i, value in enumerate(sorted(values))) / comb(n, k)


def check_k(samples_by_task: Mapping[str, int], k: int) -> None:
    """Raises UserError, naming the task, unless k divides the number of dialogues of every task."""
    if k < 1:
        raise UserError(f"--k is {k}; it must be at least 1.")
    for task, samples in samples_by_task.items():
        if samples % k:
            raise UserError(
                f"--k is {k}, but task {task} has {samples} dialogues, which {k} does not divide. "
                "Choose a --k that divides the number of dialogues of every task."
            )


def win_share(a: Sequence[float], b: Sequence[float]) -> float:
    """How often a random value of `a` is above a random one of `b`; ties count half. Raises ValueError if one is
    empty."""
    if not len(a) or not len(b):
        raise ValueError("a share of wins needs values on both sides")
    gaps = np.subtract.outer(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    return float((np.sign(gaps) + 1).mean() / 2)


def percent_text(estimate: Mapping[str, float]) -> str:
    """An estimate for people: 12.3 %  (95 %: 10.0 to 14.6)."""
    return f"{100 * estimate['mean']:.1f} %  (95 %: {interval_text(estimate['low'], estimate['high'])})"


def interval_text(low: float, high: float, sign: str = "") -> str:
    """An interval in percent for people: 10.0 to 14.6; of a difference, with the `sign` "+": -1.0 to +14.6."""
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}"


def _sign_flip_p(differences: np.ndarray, resamples: int, seed: int) -> float:
    from scipy.stats import permutation_test

    differences = differences[np.abs(differences) > ROUNDING]
    if len(differences) < 2:  # both signs of a single difference are equally far from 0
        return 1.0
    patterns = 2 ** len(differences) if len(differences) <= EXACT_UP_TO else resamples
    return float(
        permutation_test(
            (differences,),
            lambda x, axis: np.abs(np.mean(x, axis=axis)),
            permutation_type="samples",
            alternative="greater",
            n_resamples=patterns,
            batch=_batch(differences),
            rng=np.random.default_rng(seed),
        ).pvalue
    )


def _batch(values: np.ndarray) -> int:
    return max(1, BATCH // len(values))
