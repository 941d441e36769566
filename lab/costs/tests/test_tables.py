"""Costs and equal costs by hand, and the committed table."""

from __future__ import annotations

import json

import pytest

from lab.costs import tables
from sweet_rl.runs.records import Task, Trajectory, TurnCandidates


def cell(**successes):
    sizes = {"rft": (100, 10), "dpo": (100, 10), "rft_more": (900, 90), "dpo_more": (900, 90), "pmi-gap": (300, 10)}
    policies = {name: {"success": 0.0, "agent": a, "human": h} for name, (a, h) in sizes.items()}
    for name, success in successes.items():
        policies[name.replace("_gap", "-gap")]["success"] = success
    return policies


def test_at_the_middle_of_its_costs_a_baseline_has_the_middle_of_its_success():
    assert tables.at_equal_cost(cell(rft=20.0, rft_more=40.0), "rft_more", 0) == pytest.approx(30)  # 300^2 = 100 * 900


def test_a_dear_human_takes_dialogues_from_the_baselines():
    # 300 + 20 * 10 = 500 against 300 and 2700: less than half of the way in the logarithm
    found = tables.at_equal_cost(cell(rft=20.0, rft_more=40.0), "rft_more", 20)
    assert found == pytest.approx(20 + 20 * 0.23249, abs=0.01)


def test_beyond_its_costs_a_baseline_stays_what_it_is():
    whole = cell(dpo=20.0, dpo_more=40.0)
    whole["pmi-gap"]["agent"] = 2000
    assert tables.at_equal_cost(whole, "dpo_more", 0) == 40


def test_the_better_baseline_is_that_of_the_mean_over_cells():
    found = {(0, 1): cell(rft=10.0, rft_more=10.0, dpo=30.0, dpo_more=30.0), (1, 1): cell(rft=60.0, rft_more=60.0)}
    assert tables.better_baseline(found, 1) == "rft_more"


def test_the_task_is_not_counted_and_a_candidate_costs_no_words_of_the_human(tmp_path):
    said = [("user", "a task of many words"), ("assistant", "one two"), ("user", "three"), ("assistant", "four")]
    messages = [{"role": role, "content": text} for role, text in said]
    dialogue = Trajectory(Task("a task", "def f(): pass"), messages, id="1")
    (tmp_path / "few.jsonl").write_text(json.dumps(dialogue.to_dict()))
    turn = TurnCandidates("p", "o", ["one", "two three"], id="1-0")
    (tmp_path / "candidates.jsonl").write_text(json.dumps(turn.to_dict()))

    def words(text):
        return len(text.split())

    assert tables.tokens_of(tmp_path / "few.jsonl", words) == (5, 2)  # each message with its end
    assert tables.tokens_of(tmp_path / "candidates.jsonl", words) == (5, 0)


def test_the_table_is_that_of_the_committed_cells():
    assert (tables.RESULTS / "table.md").read_text() == tables.markdown(tables.cells())
