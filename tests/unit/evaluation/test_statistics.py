"""Hand-computed numbers for the bootstrap, best of k and paired differences."""

import numpy as np
import pytest

from sweet_rl.evaluation import statistics
from sweet_rl.evaluation.statistics import (
    best_of_k,
    bootstrap_interval,
    check_k,
    holm,
    paired_difference,
    win_share,
    with_width,
)
from sweet_rl.runs.errors import UserError


def test_two_tasks_give_the_bootstrap_distribution_quarter_half_quarter(monkeypatch):
    # resampled means: 0 with 1/4, 0.5 with 1/2, 1 with 1/4; at level 0.4 both quantiles (0.3, 0.7) are 0.5
    values = {"a": 0.0, "b": 1.0}
    assert (bootstrap_interval(values).low, bootstrap_interval(values).high) == (0.0, 1.0)
    monkeypatch.setattr(statistics, "LEVEL", 0.4)
    assert (bootstrap_interval(values).low, bootstrap_interval(values).high) == (0.5, 0.5)


def test_many_tasks_agree_with_the_normal_approximation():
    values = {str(i): float(i % 4 == 0) for i in range(400)}
    estimate = bootstrap_interval(values)
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)  # 0.0424
    assert estimate.low == pytest.approx(0.25 - half, abs=0.005)
    assert estimate.high == pytest.approx(0.25 + half, abs=0.005)


def test_the_same_seed_gives_the_same_interval():
    values = {str(i): i**0.5 for i in range(50)}
    assert bootstrap_interval(values, seed=4) == bootstrap_interval(values, seed=4)
    assert bootstrap_interval(values, seed=4) != bootstrap_interval(values, seed=5)


def test_the_order_of_the_tasks_changes_no_figure():
    values = {f"{i:02}": i**0.5 / 8 for i in range(50)}
    other = {task: 0.5 for task in values}
    backwards = dict(reversed(values.items()))
    assert bootstrap_interval(values) == bootstrap_interval(backwards)
    assert paired_difference(values, other) == paired_difference(backwards, other)


def test_no_value_is_an_error():
    with pytest.raises(UserError, match="no graded task"):
        bootstrap_interval({"a": []})


def test_best_of_k_by_hand():
    assert best_of_k([0.1, 0.7, 0.3], 3) == 0.7 and best_of_k([0.0, 0.3, 0.9], 1) == pytest.approx(0.4)
    # 6 pairs of 0, 0, 1, 1: only {0, 0} has maximum 0
    assert best_of_k([0, 1, 0, 1], 2) == pytest.approx(5 / 6)
    # pairs of 0, .2, .4, .6: maxima .2, .4, .6, .4, .6, .6
    assert best_of_k([0.6, 0.0, 0.4, 0.2], 2) == pytest.approx(2.8 / 6)
    with pytest.raises(ValueError):
        best_of_k([1.0], 2)


@pytest.mark.parametrize("k", [2, 4])
def test_k_that_does_not_divide_names_the_task(k):
    with pytest.raises(UserError, match="late"):
        check_k({"early": 12, "late": 3}, k)
    with pytest.raises(UserError, match="at least 1"):
        check_k({"late": 3}, 0)


def test_a_share_of_0_or_100_percent_has_the_interval_of_wilson():
    # z = 1.96, z^2 = 3.8415: up to 3.8415 / 13.8415 of 10 tasks, 3.8415 / 103.8415 of 100, 3.8415 / 4.8415 of one
    for tasks, far in ((1, 0.79346), (10, 0.27753), (100, 0.03699)):
        none = bootstrap_interval({str(i): 0.0 for i in range(tasks)})
        assert (none.mean, none.low, none.high, none.tasks) == (0.0, 0.0, pytest.approx(far, abs=1e-5), tasks)
        every = bootstrap_interval({str(i): 1.0 for i in range(tasks)})
        assert (every.mean, every.low, every.high) == (1.0, pytest.approx(1 - far, abs=1e-5), 1.0)


def test_equal_values_between_0_and_1_have_a_width_on_both_sides():
    # 4 tasks: at most 3.8415 / 7.8415 = 0.4899 of them have another value, which is 0 or 1
    half = bootstrap_interval({str(i): 0.5 for i in range(4)})
    assert (half.low, half.high) == (pytest.approx(0.5 - 0.24495, abs=1e-5), pytest.approx(0.5 + 0.24495, abs=1e-5))
    assert with_width(0.5, 4) == half


def test_values_that_are_equal_but_for_rounding_have_the_width_and_the_test_of_equal_ones():
    near = bootstrap_interval({"a": [0.7] * 3, "b": [0.7], "c": [0.7] * 2})
    equal = bootstrap_interval(dict.fromkeys("abc", 0.7))
    assert np.mean([0.7] * 3) != 0.7 and (near.low, near.high) == pytest.approx((equal.low, equal.high))
    # differences 1, 1 and one of 5e-17, which is none: of 4 patterns of signs two are as far from 0
    a, b = {"a": 1.0, "b": 1.0, "c": [0.1, 0.2, 0.3]}, {"a": 0.0, "b": 0.0, "c": [0.3, 0.2, 0.1]}
    assert np.mean(a["c"]) != np.mean(b["c"]) and paired_difference(a, b).p == 0.5
    b = {"a": [0.3, 0.2, 0.1], "b": [0.3, 0.2, 0.1], "c": [0.3, 0.2, 0.1]}
    assert paired_difference(dict.fromkeys("abc", [0.1, 0.2, 0.3]), b).p == 1.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_refused_with_its_task(value):
    with pytest.raises(UserError, match="task b has the value"):
        bootstrap_interval({"a": 1.0, "b": [0.0, value]})
    with pytest.raises(UserError, match="task b"):
        paired_difference({"a": 1.0, "b": value}, {"a": 1.0, "b": 0.0})


def test_paired_difference_by_hand():
    # differences 1, 1, 1: of 8 sign patterns two reach |mean| 1
    estimate = paired_difference({"a": 1.0, "b": 1.0, "c": [1.0, 1.0]}, {"a": 0.0, "b": 0.0, "c": 0.0})
    assert (estimate.mean, estimate.high, estimate.p) == (1.0, 1.0, 0.25)


def test_paired_difference_ignores_ties_in_its_test():
    # differences 1, -1, 1, 0: sums of +-1 +-1 +-1 are always at least 1 in size, so p is 1
    estimate = paired_difference({"a": 1, "b": 0, "c": 1, "d": 1}, {"a": 0, "b": 1, "c": 0, "d": 1})
    assert estimate.mean == 0.25 and estimate.p == 1.0


def test_random_sign_patterns_agree_with_the_binomial():
    # 12 of 16 in favour: 2 * P(X >= 12), X ~ B(16, 1/2) = 0.0768
    a = {str(i): float(i < 12) for i in range(16)}
    b = {str(i): float(i >= 12) for i in range(16)}
    assert paired_difference(a, b).p == pytest.approx(0.0768, abs=0.012)


def test_different_tasks_cannot_be_paired():
    with pytest.raises(UserError, match="same tasks"):
        paired_difference({"a": 1.0}, {"b": 1.0})


def test_holm_by_hand():
    # sorted 0.01 (x4), 0.02 (x3), 0.03 (x2), 0.5 (x1); 0.03 * 2 = 0.06 = 0.02 * 3
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.01, 0.012]) == pytest.approx([0.02, 0.02])  # never less than a smaller one's
    assert holm([0.6, 0.7]) == [1.0, 1.0] and holm([]) == []


def test_a_share_of_wins_counts_ties_half():
    assert win_share([1.0], [1.0]) == 0.5 and win_share([1.0, 0.0], [0.5]) == 0.5
    assert win_share([1.0, 1.0], [0.0, 1.0]) == 0.75


def test_tasks_are_resampled_not_their_dialogues():
    # two tasks of a hundred dialogues each are two units, whatever the number of dialogues
    many, one = {"a": [1.0] * 100, "b": [0.0] * 100}, {"a": 1.0, "b": 0.0}
    assert bootstrap_interval(many) == bootstrap_interval(one)
    assert (bootstrap_interval(many).low, bootstrap_interval(many).high) == (0.0, 1.0)
    halves = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.5]}  # all tasks have the mean 0.5
    assert bootstrap_interval(halves) == bootstrap_interval(dict.fromkeys("abc", 0.5))


def test_a_single_task_says_next_to_nothing():
    estimate = paired_difference({"a": [1.0, 0.5]}, {"a": 0.25})
    assert (estimate.mean, estimate.tasks, estimate.p) == (0.5, 1, 1.0)
    # 3.8415 / 4.8415 = 0.79346 of 1.5 down to -1, and of 0.5 up to 1
    assert (estimate.low, estimate.high) == (pytest.approx(0.5 - 1.19018, abs=1e-5), pytest.approx(0.89673, abs=1e-5))


def test_no_p_value_is_0_however_clear_the_difference():
    a, b = {str(i): 1.0 for i in range(300)}, {str(i): 0.0 for i in range(300)}
    assert paired_difference(a, b).p == 1 / 10_001
    assert holm([paired_difference(a, b).p] * 3)[0] == 3 / 10_001


def test_patterns_of_14_tasks_are_enumerated_and_those_of_15_sampled(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 50)
    a, b = ({str(i): float(value) for i in range(14)} for value in (1, 0))
    assert paired_difference(a, b).p == 2 / 2**14
    sampled = paired_difference(a | {"14": 1.0}, b | {"14": 0.0}).p
    assert sampled >= 1 / 51 and sampled * 51 == pytest.approx(round(sampled * 51))
