"""Answers placed by their reward, and the table, by hand."""

from __future__ import annotations

import json

import pytest

from lab.repairs.place_answers import answer_of, main, placed
from lab.repairs.table import OUTCOMES, RESULTS, markdown, paired, success
from sweet_rl.records import Task
from sweet_rl.task_types import load_domain


def test_right_answers_stand_above_questions_and_wrong_ones_below_in_the_order_of_the_critic():
    #        question  right  wrong  question  right  wrong, but nearly
    scores = [0.5, -9.0, 3.0, 0.1, -8.0, 2.0]
    found = placed(scores, [None, 1.0, 0.0, None, 1.0, 0.9])
    assert sorted(range(6), key=lambda place: -found[place]) == [4, 1, 0, 3, 2, 5]
    assert placed([1.0, 1.0], [None, 0.0])[1] < 1.0, "equal scores are moved too"


def test_what_ends_a_dialogue_is_asked_of_the_domain():
    task = Task("A function.", "def f(): pass", {"one": "f()"})
    domain = load_domain("mini")
    assert answer_of(domain, task, "Which unit?") is None
    assert "return 2" in (answer_of(domain, task, "I WANT TO ANSWER:\ndef f():\n    return 2") or "")


def test_candidates_are_graded_and_placed(tmp_path):
    task = {
        "id": "t",
        "problem_description": "A function double(x).",
        "ground_truth": "def double(x):\n    return 2 * x",
        "test_cases": {"one": "double(2)", "two": "double(5)"},
    }
    right, wrong = (f"I WANT TO ANSWER:\ndef double(x):\n    return {what}" for what in ("x + x", "x * x"))
    row = {
        "id": "t-0-0",
        "input": [{"text": "...", "train": False}],
        "task": task,
        "turn": 0,
        "older_output": wrong,
        "eos_text": "<|end|>",
        "additional_outputs": [wrong, "Which x?", right],
        "judge_scores": [3.0, 2.0, 1.0],
        "judge_result": [0, 1, 2],
    }
    (tmp_path / "ranked.jsonl").write_text(json.dumps(row) + "\n")
    main(str(tmp_path / "ranked.jsonl"), str(tmp_path / "placed.jsonl"))
    assert json.loads((tmp_path / "placed.jsonl").read_text())["judge_result"] == [2, 1, 0]


def test_differences_are_paired_by_seed_and_earlier_runs_come_from_their_table():
    assert paired({0: 10.0, 1: 20.0, 2: 99.0}, {0: 8.0, 1: 16.0}) == "+3.0 (-9.7 to +15.7)"  # t of one degree: 12.706
    found = success({"quick": {"release-answers": {"1": "1101"}}})
    assert found["quick"]["release-answers"] == {1: 75.0} and found["quick"]["release"][1] == pytest.approx(91.0)


def test_the_table_has_the_committed_outcomes():
    assert (RESULTS / "table.md").read_text() == markdown(json.loads(OUTCOMES.read_text()))
