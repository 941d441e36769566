"""Answers among candidates, placed by their reward: by hand, and through the ranking with the real sandbox."""

from __future__ import annotations

import json
from functools import partial

import pytest

from sweet_rl.credit.answers import answer_of, placed
from sweet_rl.credit.critic_types import ChosenCritic
from sweet_rl.credit.ranking import rank_file
from sweet_rl.errors import UserError
from sweet_rl.records import Task, TurnCandidates, read_records
from sweet_rl.task_types import load_domain
from tests.support.command_line import write_rows

RIGHT, WRONG, QUESTION = "I WANT TO ANSWER:\ndef double(x):\n    return x + x", "I WANT TO ANSWER:\nno", "Which x?"
CRITIC = """
from dataclasses import dataclass
from sweet_rl.credit.critics import CriticType

@dataclass(frozen=True)
class Settings:
    sign: int = 1

class FirstIsBest:
    def __init__(self, settings):
        self.sign = settings.sign

    def scores(self, records):
        return [[-self.sign * float(place) for place in range(len(one.additional_outputs))] for one in records]

CRITIC = CriticType(Settings, FirstIsBest)
"""


def row(**changed):
    task = {
        "id": "t",
        "problem_description": "A function double(x).",
        "ground_truth": "def double(x):\n    return 2 * x",
        "test_cases": {"one": "double(2)", "two": "double(5)"},
    }
    texts = [WRONG, QUESTION, RIGHT, "Why?"]
    return {"id": "t-0", "input": "...", "task": task, "older_output": "", "additional_outputs": texts} | changed


def ranked(tmp_path, rows, name="ranked.jsonl", domain=None, processes=None):
    (tmp_path / "critic.py").write_text(CRITIC)
    source, target = write_rows(tmp_path / "candidates.jsonl", rows), tmp_path / name
    rank_file(
        ChosenCritic(str(tmp_path / "critic.py")),
        str(source),
        str(target),
        processes=processes,
        answers=domain and partial(load_domain, domain),
    )
    return [record.judge_result for record in read_records(target, TurnCandidates)]


def test_right_answers_stand_above_questions_and_others_below_in_the_order_of_the_critic():
    rewards = {("t", "right"): 1.0, ("t", "wrong"): 0.0, ("t", "nearly"): 0.9, ("t", "unknown"): None}
    texts = ["ask", "right", "wrong", "ask more", "right", "nearly", "unknown"]
    record = TurnCandidates("...", "old", texts, task=Task("d", "g", id="t"))
    found = placed(record, [0.5, -9.0, 3.0, 0.1, -8.0, 2.0, 0.2], rewards)
    assert sorted(range(7), key=lambda place: -found[place]) == [4, 1, 0, 6, 3, 2, 5]
    equal = placed(TurnCandidates("...", "old", ["ask", "wrong"], task=record.task), [1.0, 1.0], rewards)
    assert equal[1] < equal[0]


def test_what_answers_is_asked_of_the_domain():
    task = Task("A function.", "def f(): pass", {"one": "f()"})
    assert answer_of(load_domain("code"), task, QUESTION) is None
    assert "return x + x" in (answer_of(load_domain("code"), task, RIGHT) or "")


def test_candidates_are_graded_while_they_are_ranked(tmp_path):
    assert ranked(tmp_path, [row()], domain="code") == [[2, 1, 3, 0]]
    assert ranked(tmp_path, [row()], "as_scored.jsonl") == [[0, 1, 2, 3]], "without the flag the critic decides"


def test_each_of_several_processes_places_the_answers_of_its_part(tmp_path):
    rows = [row(id=f"t-0-{turn}") for turn in range(4)]
    assert ranked(tmp_path, rows, domain="code", processes=2) == [[2, 1, 3, 0]] * 4


def test_a_placed_file_is_not_continued_without_the_flag(tmp_path):
    ranked(tmp_path, [row()], domain="code")
    with pytest.raises(UserError, match="place_answers"):
        ranked(tmp_path, [row()])
    manifest = json.loads((tmp_path / "ranked.jsonl.manifest.json").read_text())
    assert manifest["settings"]["place_answers"] == "code"


@pytest.mark.parametrize(("rows", "domain", "cause"), [
    ([row(task=None)], "code", "no task"),
    ([row(task={"problem_description": "d", "ground_truth": "g"})], "code", "test_cases"),
    ([row()], "html", "html"),
])  # fmt: skip
def test_what_cannot_be_graded_is_refused_before_the_ranking(tmp_path, rows, domain, cause):
    with pytest.raises(UserError, match=cause):
        ranked(tmp_path, rows, domain=domain)
