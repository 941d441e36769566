"""Wilson's interval against numbers worked out by hand and published ones."""

import pytest

from sweet_rl.evaluation.wilson import wilson_interval
from sweet_rl.runs.errors import UserError


def test_wilsons_interval_of_no_and_of_all_successes_has_a_width():
    none, all_of_them = (
        wilson_interval(dict.fromkeys("abcdefghij", 0.0)),
        wilson_interval(dict.fromkeys("abcdefghij", 1.0)),
    )
    # z² / (n + z²) with z = 1.959964 and n = 10
    assert (none.mean, none.low, none.high) == (0.0, 0.0, pytest.approx(0.277533, abs=1e-6))
    assert (all_of_them.mean, all_of_them.high, all_of_them.low) == (1.0, 1.0, pytest.approx(0.722467, abs=1e-6))


def test_wilsons_interval_of_a_published_example():
    """15 of 148: 0.0624 to 0.1605 (Newcombe 1998, Statistics in Medicine 17, table I, method 3)."""
    estimate = wilson_interval({str(i): float(i < 15) for i in range(148)})
    assert (estimate.low, estimate.high) == (pytest.approx(0.0624, abs=5e-5), pytest.approx(0.1605, abs=5e-5))


def test_several_dialogues_of_a_task_are_one_observation():
    assert wilson_interval({"a": [1.0] * 9, "b": [0.0]}) == wilson_interval({"a": 1.0, "b": 0.0})


def test_no_graded_task_is_an_error():
    with pytest.raises(UserError, match="no graded task"):
        wilson_interval({"a": []})
