"""The advantage against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sweet_rl.credit.advantage import advantage, order_by_score

CRITIC = np.asarray([-1.0, -2.0, -3.0])


def test_it_is_the_mean_log_ratio_of_the_turns_tokens():
    assert advantage(CRITIC, np.asarray([-2.0, -2.0, -4.0])) == pytest.approx((1 + 0 + 1) / 3)
    assert advantage(CRITIC, [-2.0, -2.0, -4.0], "none") == pytest.approx(2)


def test_the_reference_may_be_a_mean_or_another_tokenisation():
    assert advantage(CRITIC, -2.5) == pytest.approx(0.5)
    assert advantage(CRITIC, -2.5, "none") == pytest.approx(-6 + 7.5)
    assert advantage(CRITIC, [-2.5, -2.5]) == pytest.approx(0.5)


def test_an_empty_turn_has_none():
    with pytest.raises(ValueError):
        advantage(np.asarray([]), [])


def test_candidates_are_ordered_best_first_and_ties_keep_their_order():
    assert order_by_score([0.1, 0.5, 0.1, -1.0, 0.5]) == [1, 4, 0, 2, 3]


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(ValueError):
        order_by_score([0.0, float("nan")])


def test_in_a_turn_normalize_trajectory_is_the_mean_too_and_other_names_are_refused():
    reference = [-2.0, -2.0, -4.0]
    assert advantage(CRITIC, reference, "trajectory") == advantage(CRITIC, reference)
    with pytest.raises(ValueError, match="word"):
        advantage(CRITIC, reference, "word")
    with pytest.raises(ValueError):
        advantage(CRITIC, [])


REFERENCE = np.asarray([-1.5, -1.0, -6.0])  # log-ratios 0.5, -1, 3


@pytest.mark.parametrize("settings, expected", [
    ({}, 2.5 / 3),
    ({"normalize": "none"}, 2.5),
    ({"normalize": "sqrt"}, 2.5 / 3**0.5),
    ({"normalize": "top", "top_tokens": 1}, 3.0),
    ({"normalize": "top", "top_tokens": 2}, (3.0 - 1.0) / 2),
    ({"normalize": "top", "top_tokens": 9}, 2.5 / 3),
    ({"clip": 2.0}, 1.5 / 3),
    ({"clip": 0.75, "normalize": "none"}, 0.5),
    ({"clip": 0.75, "normalize": "sqrt"}, 0.5 / 3**0.5),
    ({"clip": 2.0, "normalize": "top", "top_tokens": 2}, (2.0 - 1.0) / 2),
    ({"clip": 9.0}, 2.5 / 3),
])  # fmt: skip
def test_the_log_ratios_of_a_turn_are_aggregated(settings, expected):
    assert advantage(CRITIC, REFERENCE, **settings) == pytest.approx(expected)


def test_of_equally_telling_tokens_the_first_count():
    assert advantage([-1.0, -3.0, -1.0], [-2.0, -2.0, -2.0], "top", top_tokens=2) == pytest.approx(0.0)


def test_a_mean_as_reference_counts_for_each_token_under_the_square_root_too():
    assert advantage(CRITIC, -2.5, "sqrt") == pytest.approx(1.5 / 3**0.5)


@pytest.mark.parametrize("settings", [{"normalize": "top"}, {"clip": 1.0}])
@pytest.mark.parametrize("reference", [-2.0, [-2.0, -2.0]])
def test_what_looks_at_each_token_refuses_a_mean_and_other_tokens(settings, reference):
    with pytest.raises(ValueError, match="each token"):
        advantage(CRITIC, reference, **settings)
