"""The controls in the place of the critic, and the tables of outcomes, by hand."""

from __future__ import annotations

import pytest

from lab.outcomes import LAB, markdown, paired, percent, policies, success, together
from lab.repairs.chance import Chance, ChanceSettings
from lab.repairs.oracle import Oracle, OracleSettings
from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.dialogues.mini.worlds import QUICK
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates


def test_chance_gives_equal_texts_one_score_and_depends_on_the_seed():
    record = TurnCandidates("prompt", "old", ["a", "b", "a"], id="t-0")
    one, other = (Chance(ChanceSettings(seed)).scores([record])[0] for seed in (0, 1))
    assert one[0] == one[2] != one[1] and one != other
    assert one == Chance(ChanceSettings(0)).scores([record])[0]


def test_the_oracle_puts_a_right_answer_over_a_useful_question_over_another_one_over_a_wrong_answer():
    task = Task.from_dict(make_tasks(1, seed=3)[0])
    asked = {topic.name: topic.questions[0] for topic in QUICK.topics}
    hidden = [rule[0] for rule in task.extra["mini"]["rules"]]
    other = next(name for name in asked if name not in hidden)
    texts = [f"I WANT TO ANSWER:\n{task.ground_truth}", *(asked[name] for name in (hidden[0], other, hidden[1]))]
    texts.append("I WANT TO ANSWER:\ndef wrong():\n    pass")
    told = [{"text": "wish", "train": False}, {"text": asked[hidden[1]], "train": True}]
    record = TurnCandidates(told, "old", texts, id="t-0", task=task, turn=1)
    with pytest.raises(UserError, match="grade_candidates"):
        Oracle(OracleSettings()).scores([record])
    record.answer_rewards = [1.0, None, None, None, 0.0]
    assert Oracle(OracleSettings()).scores([record]) == [[4, 2, 1, 1, 0]]  # the last question was asked before
    del task.extra["mini"]
    with pytest.raises(UserError, match="hidden rules"):
        Oracle(OracleSettings()).scores([record])


def test_differences_are_paired_by_seed_and_earlier_runs_come_from_their_table():
    assert paired({0: 10.0, 1: 20.0, 2: 99.0}, {0: 8.0, 1: 16.0}) == "+3.0 (+2.0, +4.0)"  # of two both
    assert paired({0: 2.0, 1: 4.0, 2: 3.0, 3: 99.0}, {0: 0.0, 1: 0.0, 2: 0.0}) == "+3.0 (+0.5 to +5.5)"  # t: 4.303
    found = success({"quick": {"release-answers": {"1": "1101"}}}, policies("repairs")["earlier"])
    assert found["quick"]["release-answers"] == {1: 75.0} and found["quick"]["release"][1] == pytest.approx(91.0)


def test_a_share_has_its_interval_within_the_scale_or_both_values():
    assert percent([8, 10, 12]) == "10.0 (5.0 to 15.0)"  # t of two degrees: 4.303; 4.303 * 2 / sqrt(3) = 4.97
    assert percent([0, 50, 100]) == "50.0 (0.0 to 100.0)"
    assert (percent([8, 10]), percent([8]), percent([])) == ("9.0 (8.0, 10.0)", "8.0", "")


@pytest.mark.parametrize("study", ["repairs", "controls", "pretraining"])
def test_the_tables_have_the_committed_outcomes(study):
    assert (LAB / study / "results/table.md").read_text() == markdown(study)


def test_the_page_has_the_table_of_both_studies():
    assert together() in (LAB.parent / "docs/results.md").read_text(encoding="utf-8")
