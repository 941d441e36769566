"""Intervals over agents and draws, by hand, and the committed table."""

from __future__ import annotations

import pytest
from scipy import stats

from lab.agents import crossed
from lab.outcomes import LAB, shown


def cells(table):
    return {(agent, draw): value for agent, row in enumerate(table) for draw, value in enumerate(row)}


def test_the_interval_over_agents_that_differ_is_that_of_their_means():
    found = crossed.crossed(cells([[1, 1], [5, 5], [6, 6]]))
    of_means = stats.ttest_1samp([1, 5, 6], 0).confidence_interval(0.95)
    assert found["mean"] == 4 and (found["low"], found["high"]) == pytest.approx(of_means)


def test_without_effects_of_agents_and_draws_what_is_left_makes_the_interval():
    assert shown(crossed.crossed(cells([[2, 0], [0, 2]]))) == "+1.0 (-11.7 to +13.7)"  # E = 4, t of one degree: 12.706


def test_both_effects_add_up_less_the_rest():
    # A = 2 (9 + 9) = 36, D = 2 (1 + 1) = 4, E = 4: 36 / 4 = 9, with 36^2 / (36^2 + 4^2 + 4^2) = 0.9759 degrees
    found = crossed.crossed(cells([[0, 0], [4, 8]]))
    assert found["mean"] == 3 and found["high"] - found["mean"] == pytest.approx(
        3 * stats.t.ppf(0.975, 0.9759), rel=1e-3
    )


def test_a_design_with_a_hole_has_a_mean_only():
    assert shown(crossed.crossed({(0, 0): 1.0, (0, 1): 2.0, (1, 0): 3.0})) == "+2.0"


def test_one_agent_has_the_t_interval_of_its_draws():
    assert (
        shown(crossed.crossed({(0, 0): 0.0, (0, 1): 2.0})) == "+1.0 (-11.7 to +13.7)"
    )  # 12.706 times a deviation of 1


def test_the_table_has_the_committed_outcomes():
    assert (LAB / "agents/results/table.md").read_text() == crossed.markdown("agents")
