"""Intervals by hand, and the committed tables of policies."""

from __future__ import annotations

import json

import pytest
from scipy import stats

from lab import outcomes
from lab.outcomes import (
    LAB,
    collect,
    crossed,
    crossed_markdown,
    difference,
    markdown,
    paired,
    percent,
    policies,
    shown,
    success,
    together,
)


def test_outcomes_are_collected_by_the_name_of_the_policy_and_earlier_ones_stay(tmp_path, monkeypatch):
    study = tmp_path / "lab/own"
    (study / "results").mkdir(parents=True)
    (study / "policies.json").write_text(json.dumps({"names": {"dpo.test": "DPO", "rft": "imitation"}}))
    (study / "results/outcomes.json").write_text(json.dumps({"old": {"dpo.test": {"0": "11"}}}))
    folder = tmp_path / "runs/agent1-draw2/seed0"
    folder.mkdir(parents=True)
    rows = [
        {"id": f"{task}-0", "task": {"id": task, "problem_description": "p", "ground_truth": "g"}, "reward": reward,
         "dialogue_history": [], "answer": "a"}
        for task, reward in (("b", 1.0), ("a", 0.5))
    ]  # fmt: skip
    for name in ("dpo.test", "rft.test", "few"):
        (folder / f"{name}.graded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(outcomes, "LAB", tmp_path / "lab")
    collect("own", str(tmp_path / "runs"))
    found = json.loads((study / "results/outcomes.json").read_text())
    assert found == {"old": {"dpo.test": {"0": "11"}}, "agent1-draw2": {"dpo.test": {"0": "01"}, "rft": {"0": "01"}}}


def test_a_difference_is_a_paired_t_test_over_seeds():
    one = difference([3.0, 5.0, 7.0], [1.0, 4.0, 4.0])  # 2, 1, 3: mean 2, deviation 1
    half = 4.302653 / 3**0.5  # of t with two degrees of freedom
    assert one["mean"] == 2 and one["count"] == 3
    assert (one["low"], one["high"]) == (pytest.approx(2 - half, abs=1e-5), pytest.approx(2 + half, abs=1e-5))
    assert one["p"] == pytest.approx(0.0742, abs=1e-4)  # t = 3.4641
    assert "p" not in difference([1.0], [0.0])


def test_differences_are_paired_by_seed_and_earlier_runs_come_from_their_table():
    assert paired({0: 10.0, 1: 20.0, 2: 99.0}, {0: 8.0, 1: 16.0}) == "+3.0 (+2.0, +4.0)"  # of two both
    assert paired({0: 2.0, 1: 4.0, 2: 3.0, 3: 99.0}, {0: 0.0, 1: 0.0, 2: 0.0}) == "+3.0 (+0.5 to +5.5)"  # t: 4.303
    found = success({"quick": {"release-answers": {"1": "1101"}}}, policies("repairs")["earlier"])
    assert found["quick"]["release-answers"] == {1: 75.0} and found["quick"]["release"][1] == pytest.approx(91.0)


def test_a_share_has_its_interval_within_the_scale_or_both_values():
    assert percent([8, 10, 12]) == "10.0 (5.0 to 15.0)"  # t of two degrees: 4.303; 4.303 * 2 / sqrt(3) = 4.97
    assert percent([0, 50, 100]) == "50.0 (0.0 to 100.0)"
    assert (percent([8, 10]), percent([8]), percent([])) == ("9.0 (8.0, 10.0)", "8.0", "")


@pytest.mark.parametrize("study", ["repairs", "controls", "losses", "pretraining"])
def test_the_tables_have_the_committed_outcomes(study):
    assert (LAB / study / "results/table.md").read_text() == markdown(study)


def test_the_page_has_the_table_of_both_studies():
    assert together() in (LAB.parent / "docs/results.md").read_text(encoding="utf-8")


def cells(table):
    return {(agent, draw): value for agent, row in enumerate(table) for draw, value in enumerate(row)}


def test_the_interval_over_agents_that_differ_is_that_of_their_means():
    found = crossed(cells([[1, 1], [5, 5], [6, 6]]))
    of_means = stats.ttest_1samp([1, 5, 6], 0).confidence_interval(0.95)
    assert found["mean"] == 4 and (found["low"], found["high"]) == pytest.approx(of_means)


def test_without_effects_of_agents_and_draws_what_is_left_makes_the_interval():
    assert shown(crossed(cells([[2, 0], [0, 2]]))) == "+1.0 (-11.7 to +13.7)"  # E = 4, t of one degree: 12.706


def test_both_effects_add_up_less_the_rest():
    # A = 2 (9 + 9) = 36, D = 2 (1 + 1) = 4, E = 4: 36 / 4 = 9, with 36^2 / (36^2 + 4^2 + 4^2) = 0.9759 degrees
    found = crossed(cells([[0, 0], [4, 8]]))
    assert found["mean"] == 3 and found["high"] - found["mean"] == pytest.approx(
        3 * stats.t.ppf(0.975, 0.9759), rel=1e-3
    )


def test_a_design_with_a_hole_has_a_mean_only():
    assert shown(crossed({(0, 0): 1.0, (0, 1): 2.0, (1, 0): 3.0})) == "+2.0"


def test_one_agent_has_the_t_interval_of_its_draws():
    assert shown(crossed({(0, 0): 0.0, (0, 1): 2.0})) == "+1.0 (-11.7 to +13.7)"  # 12.706 times a deviation of 1


def test_the_table_of_agents_and_draws_has_the_committed_outcomes():
    assert (LAB / "agents/results/table.md").read_text() == crossed_markdown("agents")
