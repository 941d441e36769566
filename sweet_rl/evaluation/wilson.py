"""Wilson's score interval of a share of successes, the interval of run cards."""

from math import sqrt
from statistics import NormalDist, fmean

from sweet_rl.evaluation.statistics import Estimate, ValuesByTask, task_means
from sweet_rl.runs.errors import UserError


def wilson_interval(values_by_task: ValuesByTask, level: float = 0.95) -> Estimate:
    """The mean over tasks of successes (0 or 1) and Wilson's score interval, which has a width also at 0 and 1.

    With several dialogues per task the mean of each task counts as one observation.

    Args:
        values_by_task: One value for each task, or the values of its dialogues.
        level: Confidence level of the interval.

    Raises:
        UserError: No task has a value.
    """
    means = list(task_means(values_by_task).values())
    if not means:
        raise UserError("There is no graded task to compute an interval over: was any dialogue graded?")
    n, mean = len(means), fmean(means)
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre, scale = (mean + z * z / (2 * n)), 1 + z * z / n
    reach = z * sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return Estimate(
        mean, min(mean, max(0.0, (centre - reach) / scale)), max(mean, min(1.0, (centre + reach) / scale)), n
    )
