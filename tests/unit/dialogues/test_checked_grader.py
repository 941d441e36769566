"""A user's grader: its grades are counted, its values checked, and its errors named, before any grade is used."""

from __future__ import annotations

import pytest

from sweet_rl.dialogues import Domain, Grade
from sweet_rl.dialogues.checked_grader import TOGETHER
from sweet_rl.dialogues.grading import grade_trajectories
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory

JOBS = [(Task(f"p{n}", "x"), f"0.{n}") for n in range(1, 5)]


def grader_of(body: str):
    """A grader whose `grade_many(self, jobs)` has this body, with lines separated by `;`."""
    lines = "\n".join(f"        {line}" for line in body.split("; "))
    names = {"Grade": Grade}
    exec(f"class Own:\n    def grade_many(self, jobs):\n{lines}", names)
    own = names["Own"]
    own.describe, own.close = lambda self: "own", lambda self: None
    return own


def graded(body: str, jobs=JOBS) -> list[float | None]:
    with Domain("mine", lambda settings: grader_of(body)()).make_grader(None) as grader:
        return [grade.reward for grade in grader.grade_many(iter(jobs))]


def test_grades_come_in_order_also_of_more_answers_than_one_call_gets():
    jobs = [JOBS[0]] * TOGETHER + [JOBS[3]] * 3
    assert graded("return [Grade(float(answer)) for _, answer in jobs]", jobs) == [0.1] * TOGETHER + [0.4] * 3
    assert graded("yield from (Grade(float(answer)) for _, answer in jobs)", []) == []


@pytest.mark.parametrize("body, named", [
    ("yield from (Grade(1.0) for _, answer in jobs if answer != '0.2')", "gave 3 grades for 4 answers"),
    ("yield from [Grade(1.0)] * 5", "gave more grades for 4 answers"),
    ("yield from [0.5] * 4", "gave task .* 0.5; it must be a Grade"),
    ("yield from (Grade(7) for _ in jobs)", "the reward is 7; it must be a number"),
    ("yield from (Grade(True) for _ in jobs)", "the reward is True; it must be a number"),
    ("yield from (Grade(0.5, failure=3) for _ in jobs)", "failure is 3; it must be a text"),
    ("yield from (Grade(0.5, evidence={'x': {1}}) for _ in jobs)", "evidence that is no JSON"),
    ("jobs.sort(key=lambda job: job[1], reverse=True); yield from [Grade(1.0)] * 4", "changed the order of its jobs"),
    ("next(iter([])); yield", "StopIteration"),
    ("raise SystemExit(0); yield", "SystemExit: 0"),
    ("return None", "NoneType"),
])  # fmt: skip
def test_what_no_grader_may_do_is_refused_before_a_grade_is_used(body, named):
    with pytest.raises(UserError, match=named):
        graded(body)


def test_a_grader_gets_copies():
    task = Task("as it was", "x", extra={"list": []})
    graded("for task, _ in jobs: task.problem_description = 'changed'; return [Grade(1.0) for _ in jobs]", [(task, "")])
    assert (task.problem_description, task.extra) == ("as it was", {"list": []})


def test_a_class_without_the_methods_of_a_grader_is_refused():
    with pytest.raises(UserError, match="object has no method describe"):
        Domain("mine", lambda settings: object()).make_grader(None)


@pytest.mark.parametrize("grades, named", [([Grade(1.0)], "1 grades fewer"), ([Grade(1.0)] * 3, "more grades")])
def test_grades_are_counted_also_where_a_grader_is_called_directly(grades, named):
    class Own:
        def grade_many(self, jobs):
            list(jobs)
            return iter(grades)

    failed = Trajectory(JOBS[0][0], [], ending="failed", id="failed")
    rows = [Trajectory(task, [], answer=answer, id=answer, ending="answered") for task, answer in JOBS[:2]]
    with pytest.raises(UserError, match=named):
        list(grade_trajectories([*rows, failed], Own()))
