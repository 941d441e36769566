"""Intervals and tests over seeds and tasks together."""

import numpy as np
import pytest
from scipy import stats

from sweet_rl.evaluation import statistics
from sweet_rl.evaluation.statistics import two_level_interval, two_level_p
from sweet_rl.runs.errors import UserError


def simulated(draw, seeds=5, tasks=60, between_seeds=0.05, between_tasks=0.2, noise=0.3, mean=0.0):
    """Differences with a random effect of each seed and each task."""
    return (
        mean
        + between_seeds * draw.standard_normal((seeds, 1))
        + between_tasks * draw.standard_normal((1, tasks))
        + noise * draw.standard_normal((seeds, tasks))
    )


def test_the_interval_of_two_seeds_on_one_task_is_theirs(monkeypatch):
    # resampled means of the seeds 0 and 1: 0 with 1/4, 0.5 with 1/2, 1 with 1/4
    values = np.array([[0.0], [1.0]])
    assert two_level_interval(values).low == 0.0 and two_level_interval(values).high == 1.0
    monkeypatch.setattr(statistics, "LEVEL", 0.4)
    estimate = two_level_interval(values)
    assert (estimate.low, estimate.mean, estimate.high) == (0.5, 0.5, 0.5)


def test_seeds_that_differ_widen_the_interval_and_equal_seeds_do_not():
    tasks = np.random.default_rng(0).random(200)
    same = two_level_interval(np.stack([tasks] * 5))
    apart = two_level_interval(np.stack([tasks + shift for shift in (-0.2, -0.1, 0, 0.1, 0.2)]))
    half = 1.96 * tasks.std() / np.sqrt(200)
    assert (same.high - same.low) / 2 == pytest.approx(half, rel=0.05)
    # the variance of the mean of five seeds, as the bootstrap has it: 0.02 / 5
    assert (apart.high - apart.low) / 2 == pytest.approx(np.hypot(half, 1.96 * np.sqrt(0.02 / 5)), rel=0.1)
    assert apart.mean == pytest.approx(same.mean)


def test_equal_values_of_all_seeds_have_wilsons_interval_over_the_tasks():
    found = two_level_interval(np.zeros((5, 10)))
    assert (found.low, found.high, found.tasks) == (0.0, pytest.approx(0.27753, abs=1e-5), 10)
    found = two_level_interval(np.zeros((5, 10)), lowest=-1.0)
    assert (found.low, found.high) == (pytest.approx(-0.27753, abs=1e-5), pytest.approx(0.27753, abs=1e-5))
    with pytest.raises(UserError, match="no number"):
        two_level_interval(np.array([[0.0, np.nan]]))


def test_seeds_without_tasks_that_differ_are_a_t_test_over_seeds_and_the_other_way_round():
    shifts = np.array([0.1, 0.3, 0.2, 0.5])
    expected = stats.ttest_1samp(shifts, 0).pvalue
    assert two_level_p(np.repeat(shifts[:, None], 7, axis=1)) == pytest.approx(expected)
    assert two_level_p(np.repeat(shifts[None], 7, axis=0)) == pytest.approx(expected)


def test_the_quasi_f_test_by_hand():
    # row means 2, 4; column means 2, 4; mean 3; no residual: MS_seeds = MS_tasks = 2 * (1 + 1) / 1 = 4.
    # variance (4 + 4) / 4 = 2, t = 3 / sqrt(2), degrees 8^2 / (16 + 16) = 2. Over two seeds alone: t = 3, 1 degree
    values = np.array([[1.0, 3.0], [3.0, 5.0]])
    quasi, seeds = 2 * stats.t.sf(3 / np.sqrt(2), 2), 2 * stats.t.sf(3.0, 1)
    assert quasi < seeds and two_level_p(values) == pytest.approx(seeds)
    # five seeds and tasks: row and column means 1 to 5; MS_seeds = MS_tasks = 5 * 10 / 4 = 12.5; variance 25 / 25,
    # degrees 25^2 / (2 * 12.5^2 / 4) = 8. Over five seeds alone: t = 3 / sqrt(0.5), 4 degrees
    values = np.add.outer(range(5), range(5)) - 1.0
    quasi, seeds = 2 * stats.t.sf(3.0, 8), 2 * stats.t.sf(3 / np.sqrt(0.5), 4)
    assert quasi > seeds and two_level_p(values) == pytest.approx(quasi)

    # four seeds, six tasks, mean 2: MS_seeds = 6 * 5 / 3 = 10, MS_tasks = 4 * 17.5 / 5 = 14; variance 24 / 24, degrees
    # 24^2 / (10^2 / 3 + 14^2 / 5) = 7.94
    values = np.add.outer(range(4), range(6)) - 2.0
    assert two_level_p(values) == pytest.approx(2 * stats.t.sf(2.0, 24**2 / (100 / 3 + 196 / 5)))


def test_a_variance_below_that_of_seeds_or_tasks_alone_is_not_used():
    # row means 1.2 and 0.8, column means 1 +- 0.1 each; the residuals +-1 have MS 4, so the sum of both is negative
    values = np.array([[2.3, 0.1], [-0.1, 1.7]])
    by_seed, by_task = (stats.ttest_1samp(values.mean(axis), 0).pvalue for axis in (1, 0))
    assert two_level_p(values) == pytest.approx(max(by_seed, by_task))


@pytest.mark.parametrize(
    "values", [[[1, -1], [1, -1]], [[1, 0, -1], [0, 1, -1]], [[1, 1], [-1, -1]], [[1, -1], [-1, 1]]]
)
def test_a_mean_of_zero_has_p_one(values):
    assert two_level_p(np.array(values, dtype=float)) == 1.0


def test_differences_that_are_of_seed_and_task_together_only_are_compared_with_these():
    # mean 1, residuals +-1 with MS 4 and 1 degree: t = 1 / sqrt(4 / 4)
    assert two_level_p(np.array([[2.0, 0.0], [0.0, 2.0]])) == pytest.approx(2 * stats.t.sf(1.0, 1))


def test_no_difference_anywhere_has_p_one_and_the_sign_does_not_matter():
    assert two_level_p(np.zeros((3, 4))) == 1.0
    values = simulated(np.random.default_rng(3), mean=0.1)
    assert two_level_p(values) == pytest.approx(two_level_p(-values))


def test_equal_differences_are_as_sure_as_the_number_of_seeds_with_one_sign():
    assert two_level_p(np.full((3, 40), 0.5)) == 2 / 2**3  # of eight patterns of signs two are as far from 0


@pytest.mark.parametrize("tasks", [2, 3, 4, 5, 40])
def test_differences_that_are_equal_but_for_rounding_are_equal(tasks):
    """The mean of equal floating-point numbers may be another number, so that squares of 1e-33 are left."""
    for value in (2 / 3, 0.7, 1 - 1 / 3):
        equal = np.full((2, tasks), value)
        assert two_level_p(equal) == two_level_p(-equal) == 0.5
        near = equal.copy()
        near[0] = np.mean([value] * 3)
        found, expected = (two_level_interval(values, lowest=-1.0) for values in (near, equal))
        assert two_level_p(near) == 0.5 and (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert two_level_p(np.full((3, tasks), np.mean([0.1, 0.2, 0.3]) - np.mean([0.3, 0.2, 0.1]))) == 1.0


def test_one_in_twenty_tests_without_a_difference_is_below_five_percent():
    draw = np.random.default_rng(0)
    for effects in ({}, {"between_seeds": 0.0}, {"between_tasks": 0.0}, {"between_seeds": 0.3}):
        rejected = np.mean([two_level_p(simulated(draw, **effects)) < 0.05 for _ in range(500)])
        assert rejected < 0.075, effects


def test_the_ratio_of_two_sums_resamples_both_together(monkeypatch):
    # two tasks, right 1 of 1 and 0 of 3: resamples hold one of them twice, or both
    parts, denominators = np.array([[1.0, 0.0]]), np.array([[1.0, 3.0]])
    found = two_level_interval(parts, denominators=denominators)
    assert (found.mean, found.low, found.high) == (0.25, 0.0, 1.0)
    monkeypatch.setattr(statistics, "LEVEL", 0.4)
    middle = two_level_interval(parts, denominators=denominators)
    assert middle.low == middle.high == 0.25


def test_equal_denominators_are_a_mean_and_resamples_with_0_are_left_out():
    values = simulated(np.random.default_rng(1))
    assert two_level_interval(2 * values, denominators=np.full(values.shape, 2.0)) == pytest.approx(
        two_level_interval(values)
    )
    found = two_level_interval(np.array([[2.0, 0.0, 0.0]]), denominators=np.array([[4.0, 0.0, 0.0]]))
    # one task: 0.79346 of the way to 0 and to 1 (Wilson)
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.10327, 0.89673), abs=1e-5)
