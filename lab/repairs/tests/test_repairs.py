"""The control without a critic, and the tables of outcomes, by hand."""

from __future__ import annotations

import pytest

from lab.outcomes import LAB, markdown, paired, policies, success, together
from lab.repairs.chance import Chance, ChanceSettings
from sweet_rl.records import TurnCandidates


def test_chance_gives_equal_texts_one_score_and_depends_on_the_seed():
    record = TurnCandidates("prompt", "old", ["a", "b", "a"], id="t-0")
    one, other = (Chance(ChanceSettings(seed)).scores([record])[0] for seed in (0, 1))
    assert one[0] == one[2] != one[1] and one != other
    assert one == Chance(ChanceSettings(0)).scores([record])[0]


def test_differences_are_paired_by_seed_and_earlier_runs_come_from_their_table():
    assert paired({0: 10.0, 1: 20.0, 2: 99.0}, {0: 8.0, 1: 16.0}) == "+3.0 (-9.7 to +15.7)"  # t of one degree: 12.706
    found = success({"quick": {"release-answers": {"1": "1101"}}}, policies("repairs")["earlier"])
    assert found["quick"]["release-answers"] == {1: 75.0} and found["quick"]["release"][1] == pytest.approx(91.0)


@pytest.mark.parametrize("study", ["repairs", "controls"])
def test_the_tables_have_the_committed_outcomes(study):
    assert (LAB / study / "results/table.md").read_text() == markdown(study)


def test_the_page_has_the_table_of_both_studies():
    assert together() in (LAB.parent / "docs/results.md").read_text(encoding="utf-8")
