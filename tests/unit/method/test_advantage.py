"""The advantage against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sweet_rl.method.advantage import advantage, order_by_score

CRITIC = np.asarray([-1.0, -2.0, -3.0])


def test_it_is_the_mean_log_ratio_of_the_turns_tokens():
    assert advantage(CRITIC, np.asarray([-2.0, -2.0, -4.0])) == pytest.approx((1 + 0 + 1) / 3)
    assert advantage(CRITIC, [-2.0, -2.0, -4.0], "none") == pytest.approx(2)


def test_the_reference_may_be_a_mean_or_another_tokenisation():
    assert advantage(CRITIC, -2.5) == pytest.approx(0.5)
    assert advantage(CRITIC, -2.5, "none") == pytest.approx(-6 + 7.5)
    assert advantage(CRITIC, [-2.5, -2.5]) == pytest.approx(0.5)


def test_an_empty_turn_has_none_and_other_normalisations_are_refused():
    for critic, reference in (([], []), ([], 0.0), (CRITIC, [])):
        with pytest.raises(ValueError, match="tokens"):
            advantage(np.asarray(critic), reference)
    with pytest.raises(ValueError, match="trajectory"):
        advantage(CRITIC, [-2.0, -2.0, -4.0], "trajectory")


def test_candidates_are_ordered_best_first_and_ties_keep_their_order():
    assert order_by_score([0.1, 0.5, 0.1, -1.0, 0.5]) == [1, 4, 0, 2, 3]
