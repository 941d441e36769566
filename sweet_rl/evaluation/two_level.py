"""Statistics over seeds and tasks together, for runs that were trained several times on the same tasks.

Another training and other test tasks would both give another figure. An interval over tasks alone is too narrow for a
statement about a method. Values are matrices [S, T]: one row per seed, one column per task.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sweet_rl.evaluation.statistics import RESAMPLES, ROUNDING, Estimate, with_width
from sweet_rl.runs.errors import UserError


def two_level_interval(
    values: np.ndarray, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0, lowest: float = 0.0
) -> Estimate:
    """The mean and its percentile bootstrap interval; seeds and tasks are resampled independently.

    This is the bootstrap of Owen (2007, "The pigeonhole bootstrap") for crossed random effects. With S seeds it
    counts the variance between seeds only (S - 1)/S times, so that few seeds give a slightly narrow interval.
    The arguments are those of `statistics.bootstrap_interval`, as is the interval of equal values; `values` is [S, T].
    """
    return two_level_ratio(values, np.ones_like(values), level, resamples, seed, lowest)


def two_level_ratio(
    parts: np.ndarray,
    wholes: np.ndarray,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    lowest: float = 0.0,
) -> Estimate:
    """The ratio of two sums, for example of right pairs to pairs, and its interval as in `two_level_interval`.

    `parts` and `wholes` are [S, T], 0 and 0 for a seed that says nothing about a task. Resamples without any whole are
    left out.

    Raises:
        UserError: A value is not a finite number.
    """
    seeds, tasks = parts.shape
    known = wholes != 0
    if not np.isfinite(parts).all() or not np.isfinite(wholes).all():
        raise UserError("a value of a seed and a task is no number: grade its dialogues again.")
    ratios = parts[known] / wholes[known]
    if len(ratios) and np.ptp(ratios) <= ROUNDING:
        return replace(with_width(float(ratios[0]), int(known.any(0).sum()), level, lowest), tasks=tasks)
    draw = np.random.default_rng(seed)
    by_seed = draw.multinomial(seeds, np.full(seeds, 1 / seeds), resamples)
    by_task = draw.multinomial(tasks, np.full(tasks, 1 / tasks), resamples)
    above, below = (np.einsum("rt,rt->r", by_seed @ values, by_task) for values in (parts, wholes))
    low, high = np.quantile(above[below > 0] / below[below > 0], [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(parts.sum() / wholes.sum()), float(low), float(high), tasks)


def two_level_p(differences: np.ndarray) -> float:
    """The two-sided p-value of a paired difference over seeds and tasks: the quasi-F test.

    The variance of the mean is (MS_seeds + MS_tasks - MS_residual) / (S T), of the mean squares of a two-way analysis
    of variance without replication; its degrees of freedom are Satterthwaite's (Clark 1973, "The
    language-as-fixed-effect fallacy"). A statement about new seeds and new tasks is never surer than one about new
    seeds or new tasks alone, so the p-value is at least that of the t test over the means of the seeds, and over those
    of the tasks. These two alone decide if the variance is not above both of theirs. A sign-flip test over seeds cannot
    be used: with five seeds its p-value is never below 0.06. It is used for differences that are all equal, which have
    no variance.

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
