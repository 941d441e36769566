"""Statistics over tasks, and over seeds and tasks: bootstrap intervals, best of k, paired differences.

Dialogues of the same task are not independent. Every interval and test therefore averages the values of each task
first and resamples tasks, never dialogues. Pure functions; the same seed gives the same numbers. Intervals are of 95 %.

Another training and other test tasks would both give another figure, so that an interval over tasks alone is too
narrow for a statement about a method. The functions `two_level_*` take matrices [S, T] of runs that were trained
several times: one row per seed, one column per task.

If all n tasks have one value, the bootstrap interval is a point. Wilson's is used instead: up to z^2 / (n + z^2) of the
tasks could have the lowest or the highest possible value. More dialogues or seeds do not narrow it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from statistics import NormalDist
from typing import Any

import numpy as np

from sweet_rl.runs.errors import UserError

LEVEL = 0.95
RESAMPLES = 10_000
EXACT_UP_TO = 14  # differing tasks: 2**14 sign patterns are enumerated instead of sampled
BATCH = 200_000  # resampled values in memory at a time
ROUNDING = 1e-12  # smaller differences are rounding errors

ValuesByTask = Mapping[Any, Sequence[float] | float]  # the keys are ids or numbers of tasks


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
    """A mean difference over tasks with its interval, and the two-sided p-value of the difference."""

    p: float


def task_means(values_by_task: ValuesByTask) -> dict[Any, float]:
    """The mean of each task's values, sorted by task; tasks without a value are left out.

    Sorted, because resamples draw positions: in another order the same values would have another interval.
    """
    return {task: float(np.mean(values)) for task, values in sorted(values_by_task.items()) if np.size(values)}


def bootstrap_interval(values_by_task: ValuesByTask, seed: int = 0, lowest: float = 0.0) -> Estimate:
    """The mean over tasks and its percentile bootstrap interval, resampled over tasks; `with_width` if all are equal.

    Args:
        values_by_task: One value for each task, or the values of its dialogues.
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
    if np.ptp(means) <= ROUNDING:
        return with_width(float(means[0]), len(means), lowest)
    interval = bootstrap(
        (means,),
        np.mean,
        confidence_level=LEVEL,
        n_resamples=RESAMPLES,
        batch=_batch(means),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(float(means.mean()), float(interval.low), float(interval.high), len(means))


def with_width(value: float, tasks: int, lowest: float = 0.0) -> Estimate:
    """The estimate of tasks that all have the same value, from `lowest` to 1; its interval is Wilson's (see above)."""
    squared = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2
    others = squared / (tasks + squared)  # largest share of tasks with another value
    return Estimate(value, value - others * (value - lowest), value + others * (1 - value), tasks)


def paired_difference(a_by_task: ValuesByTask, b_by_task: ValuesByTask, seed: int = 0) -> DifferenceEstimate:
    """The mean of a - b over tasks, its bootstrap interval, and the p-value of a sign-flip permutation test.

    The test gives each task's difference a random sign and counts how often the mean is at least as far from 0 as
    the observed one. It enumerates all sign patterns for up to 14 differing tasks, else it samples 10,000 of them
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
    estimate = bootstrap_interval(differences, seed, lowest=-1.0)
    return DifferenceEstimate(**asdict(estimate), p=_sign_flip_p(np.array(list(differences.values())), seed))


def _sign_flip_p(differences: np.ndarray, seed: int) -> float:
    from scipy.stats import permutation_test

    differences = differences[np.abs(differences) > ROUNDING]
    if len(differences) < 2:  # both signs of a single difference are equally far from 0
        return 1.0
    return float(
        permutation_test(
            (differences,),
            lambda x, axis: np.abs(np.mean(x, axis=axis)),
            permutation_type="samples",
            alternative="greater",
            n_resamples=2 ** len(differences) if len(differences) <= EXACT_UP_TO else RESAMPLES,
            batch=_batch(differences),
            rng=np.random.default_rng(seed),
        ).pvalue
    )


def _batch(values: np.ndarray) -> int:
    return max(1, BATCH // len(values))


def two_level_interval(
    values: np.ndarray,
    seed: int = 0,
    lowest: float = 0.0,
    denominators: np.ndarray | None = None,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The mean and its percentile bootstrap interval; seeds and tasks are resampled independently.

    This is the bootstrap of Owen (2007, "The pigeonhole bootstrap") for crossed random effects. With S seeds it
    counts the variance between seeds only (S - 1)/S times, so that few seeds give a slightly narrow interval.

    Args:
        values: [S, T], a row per seed and a column per task.
        seed: Seed of the resampling.
        lowest: Lowest possible value; the highest is 1.
        denominators: [S, T]; then the estimate is the sum of the values divided by the sum of these, for example right
            pairs by all pairs. Both are 0 where a seed has nothing for a task.
        resamples: Number of bootstrap resamples. Those whose denominators are all 0 are left out.

    Raises:
        UserError: A value is not a finite number.
    """
    seeds, tasks = values.shape
    denominators = np.ones_like(values) if denominators is None else denominators
    if not np.isfinite(values).all() or not np.isfinite(denominators).all():
        raise UserError("a value of a seed and a task is no number: grade its dialogues again.")
    known = denominators != 0
    ratios = values[known] / denominators[known]
    if len(ratios) and np.ptp(ratios) <= ROUNDING:
        return replace(with_width(float(ratios[0]), int(known.any(0).sum()), lowest), tasks=tasks)
    draw = np.random.default_rng(seed)
    by_seed = draw.multinomial(seeds, np.full(seeds, 1 / seeds), resamples)
    by_task = draw.multinomial(tasks, np.full(tasks, 1 / tasks), resamples)
    above, below = (np.einsum("rt,rt->r", by_seed @ part, by_task) for part in (values, denominators))
    low, high = np.quantile(above[below > 0] / below[below > 0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(values.sum() / denominators.sum()), float(low), float(high), tasks)


def two_level_p(differences: np.ndarray) -> float:
    """The two-sided p-value of a paired difference over seeds and tasks: the quasi-F test.

    The variance of the mean is (MS_seeds + MS_tasks - MS_residual) / (S T), of the mean squares of a two-way analysis
    of variance without replication; its degrees of freedom are Satterthwaite's (Clark 1973, "The
    language-as-fixed-effect fallacy"). The p-value is at least those of the t tests over the means of seeds and over
    those of tasks. If the joint variance is not above both of theirs, only these two tests count. Differences that are
    all equal have no variance: they get a sign-flip test over seeds, which with five seeds is never below 0.06.

    Args:
        differences: [S, T] with S and T at least 2.
    """
    from scipy.stats import t as student

    seeds, tasks = differences.shape
    mean = differences.mean()
    by_seed, by_task = differences.mean(1) - mean, differences.mean(0) - mean
    residual = differences - mean - by_seed[:, None] - by_task
    free = np.array([seeds - 1, tasks - 1, (seeds - 1) * (tasks - 1)])
    squares = np.array([tasks * (by_seed**2).sum(), seeds * (by_task**2).sum(), (residual**2).sum()]) / free
    squares[squares <= ROUNDING**2] = 0.0
    if abs(mean) <= ROUNDING:
        return 1.0
    if not squares.any():
        return 2.0 ** (1 - seeds)
    variances, degrees = list(squares[:2]), list(free[:2])  # of seeds alone and of tasks alone
    together = squares[0] + squares[1] - squares[2]
    if together > squares[:2].max():
        variances.append(together)
        degrees.append(together**2 / (squares**2 / free).sum())
    if not any(variances):  # seeds and tasks differ only together
        variances, degrees = [squares[2]], [free[2]]
    with np.errstate(divide="ignore"):
        statistics = np.abs(mean) / np.sqrt(np.array(variances) / (seeds * tasks))
    return float((2 * student.sf(statistics, degrees)).max())


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
    """How often a random value of `a` is above a random one of `b`, neither empty; ties count half."""
    gaps = np.subtract.outer(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    return float((np.sign(gaps) + 1).mean() / 2)


def percent_text(estimate: Mapping[str, float]) -> str:
    """An estimate for people: 12.3 %  (95 %: 10.0 to 14.6)."""
    return f"{100 * estimate['mean']:.1f} %  (95 %: {interval_text(estimate['low'], estimate['high'])})"


def interval_text(low: float, high: float, sign: str = "") -> str:
    """An interval in percent for people: 10.0 to 14.6; of a difference, with the `sign` "+": -1.0 to +14.6."""
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}"
