"""Answers among candidates get their reward from the domain's grader, in the real sandbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweet_rl.dialogues import Grade
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.candidate_rewards import answer_of, grade_candidates
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates, read_records
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import write_rows

RIGHT, WRONG, QUESTION = "I WANT TO ANSWER:\ndef double(x):\n    return x + x", "I WANT TO ANSWER:\nno", "Which x?"
TASK = {
    "id": "t",
    "problem_description": "A function double(x).",
    "ground_truth": "def double(x):\n    return 2 * x",
    "test_cases": {"one": "double(2)", "two": "double(5)"},
}


def row(**changed):
    texts = [WRONG, QUESTION, RIGHT, "Why?"]
    return {"id": "t-0", "input": "...", "task": TASK, "older_output": "", "additional_outputs": texts} | changed


def graded(tmp_path, rows, domain="code"):
    source, target = write_rows(tmp_path / "candidates.jsonl", rows), tmp_path / "graded.jsonl"
    summary = grade_candidates(load_domain(domain), CodeGrading(), str(source), str(target), StepSettings())
    return summary, read_records(target, TurnCandidates)


def candidates(dialogue=None) -> TurnCandidates:
    return TurnCandidates.from_dict(row(dialogue=dialogue))


def said(*texts):
    """A dialogue of these texts; the human begins."""
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]


def test_what_answers_is_asked_of_the_domain():
    assert answer_of(load_domain("code"), candidates(), QUESTION) is None
    assert "return x + x" in (answer_of(load_domain("code"), candidates(), RIGHT) or "")


def test_the_answer_is_that_of_the_dialogue_which_the_candidate_ends():
    domain = load_domain("docs/examples/interview.py")  # its answer is all that the agent has said
    system = [{"role": "system", "content": "..."}]
    for before in (said("task", "One?", "a", "Two?", "b"), system + said("task", "One?", "a", "Two?", "b")):
        assert answer_of(domain, candidates(before), RIGHT) == f"One?\nTwo?\n{RIGHT}"
        assert answer_of(domain, candidates(before), QUESTION) is None
    assert answer_of(domain, candidates(said("task")), RIGHT) == answer_of(domain, candidates(), RIGHT) == RIGHT


@pytest.mark.parametrize(
    "before", [said("task", RIGHT, "a"), said("task", RIGHT), said("task", "One?", "a") + said("b")]
)
def test_a_dialogue_that_the_domain_does_not_allow_is_refused(before):
    with pytest.raises(UserError, match="'t-0'.*--task_type"):
        answer_of(load_domain("code"), candidates(before), RIGHT)


def test_an_answer_in_reasoning_that_was_cut_is_none(tmp_path):
    texts = [f"Later {RIGHT}", f"Hm.</think>{RIGHT}"]
    rows = [row(input="...<think>\n", additional_outputs=texts, additional_finish_reasons=["length", "stop"])]
    _, (found,) = graded(tmp_path, rows)
    assert found.answer_rewards == [None, 1.0]


def test_answers_get_their_reward_and_questions_none(tmp_path, capsys):
    rows = [row(own="kept"), row(id="t-1", additional_outputs=["Why?", "How?"]), row(id="t-2")]
    summary, records = graded(tmp_path, rows)
    assert [record.answer_rewards for record in records] == [[0, None, 1, None], [None, None], [0, None, 1, None]]
    assert [record.id for record in records] == ["t-0", "t-1", "t-2"] and records[0].extra == {"own": "kept"}
    assert summary == {"turns": 3, "answers": 4, "right": 2}
    graded(tmp_path, rows)
    assert "already complete" in capsys.readouterr().out


def test_a_text_is_graded_once_for_each_task_and_a_failure_of_the_machine_is_no_reward(tmp_path):
    asked, fails = [], [True]

    def reward(task, answer):
        asked.append((task.id, answer))
        return Grade(None, machine="no memory") if fails else 1.0

    domain = replace(load_domain("code"), grader=None, reward=reward)
    source = write_rows(tmp_path / "c.jsonl", [row(id="u-0", task=TASK | {"id": "u"}), row(id="t-1"), row(id="t-2")])
    call = (domain, CodeGrading(), str(source), str(tmp_path / "graded.jsonl"), StepSettings())
    with pytest.raises(UserError, match="no memory.*again"):
        grade_candidates(*call)
    fails.clear()
    asked.clear()
    grade_candidates(*call)
    found = read_records(tmp_path / "graded.jsonl", TurnCandidates)
    assert [record.answer_rewards for record in found] == [[1, None, 1, None]] * 3
    assert len(asked) == len(set(asked)) == 4


@pytest.mark.parametrize(("rows", "domain", "cause"), [
    ([row(task=None)], "code", "no task"),
    ([row(task={"problem_description": "d", "ground_truth": "g"})], "code", "test_cases"),
    ([row()], "html", "html"),
])  # fmt: skip
def test_what_cannot_be_graded_is_refused_before_anything_is_written(tmp_path, rows, domain, cause):
    with pytest.raises(UserError, match=cause):
        graded(tmp_path, rows, domain)
    assert not (tmp_path / "graded.jsonl").exists()
