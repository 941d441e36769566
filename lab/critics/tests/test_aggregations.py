"""Aggregations of log-ratios against numbers computed by hand."""

import numpy as np
import pytest

from lab.critics.aggregations import Aggregation

CRITIC = np.asarray([-1.0, -2.0, -3.0])
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
    assert Aggregation(**settings).score(CRITIC, REFERENCE) == pytest.approx(expected)


def test_of_equally_telling_tokens_the_first_count():
    assert Aggregation("top", 2).score([-1.0, -3.0, -1.0], [-2.0, -2.0, -2.0]) == pytest.approx(0.0)


def test_a_mean_as_reference_counts_for_each_token_under_the_square_root_too():
    assert Aggregation("sqrt").score(CRITIC, -2.5) == pytest.approx(1.5 / 3**0.5)


@pytest.mark.parametrize("settings", [{"normalize": "top"}, {"clip": 1.0}])
@pytest.mark.parametrize("reference", [-2.0, [-2.0, -2.0]])
def test_what_looks_at_each_token_refuses_a_mean_and_other_tokens(settings, reference):
    with pytest.raises(ValueError, match="each token"):
        Aggregation(**settings).score(CRITIC, reference)
