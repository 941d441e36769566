"""Answers among candidates, placed by their reward (step 5): what a grader can tell, a critic need not guess.

A right one (reward 1) stands above all questions of its turn, any other below them. The critic's order among answers,
and among questions, stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sweet_rl.domains import Domain
from sweet_rl.domains.backend.environment import CodeGrading
from sweet_rl.errors import UserError
from sweet_rl.models import Completion
from sweet_rl.progress import progress_bar
from sweet_rl.records import Task, TurnCandidates

Rewards = dict[tuple[str, str], float | None]
"""(id of the task, text of a candidate that answers) -> its reward; None if the reference cannot be graded against."""


def checked(domain: Domain) -> Domain:
    """The domain. Raises UserError if it grades by likeness of pages, so that no reward says what is right."""
    if domain.draws_pages:
        raise UserError(f"--place_answers needs rewards that say what is right; --task_type {domain.name} has none.")
    return domain


def answer_of(domain: Domain, task: Task, text: str) -> str | None:
    """The answer in a message of the agent that ends a dialogue; None if the message does not end one."""
    environment = domain.begin(domain.agent_template(), max_turns=2)(task)
    environment.step(Completion(text, None, None, "stop"))
    return environment.answer if environment.ending == "answered" else None


def answer_rewards(domain: Domain, records: Iterable[TurnCandidates], path: str) -> Rewards:
    """Grade all candidates that answer, each text of a task once.

    Args:
        domain: The domain of the tasks, with whose default settings they are graded.
        records: Candidates.
        path: Their file, for errors.

    Raises:
        UserError: A record has no task, the tasks are another domain's, or the machine failed.
    """
    answers: dict[tuple[str, str], tuple[Task, str]] = {}
    tasks: list[Task] = []
    for record in records:
        if record.task is None:
            raise UserError(f"{path}: candidates {record.id!r} have no task, which --place_answers needs.")
        tasks.append(record.task)
        for text in dict.fromkeys(record.additional_outputs):
            if (answer := answer_of(domain, record.task, text)) is not None:
                answers[record.task.id, text] = (record.task, answer)
    domain.check(tasks, path)
    with domain.grader(CodeGrading()) as grader:
        grades = list(progress_bar(grader.grade_many(answers.values()), total=len(answers), desc="answers"))
    failed = [grade.machine for grade in grades if grade.machine is not None]
    if failed:
        raise UserError(f"{len(failed)} answers could not be graded on this machine ({failed[0]}). Run it again.")
    return {key: grade.reward for key, grade in zip(answers, grades, strict=True)}


def placed(record: TurnCandidates, scores: Sequence[float], rewards: Rewards) -> list[float]:
    """The scores of a turn's candidates, with right answers moved above all others and wrong ones below.

    Args:
        record: The candidates.
        scores: The critic's score of each.
        rewards: `answer_rewards`. Other candidates, and those whose reward is None, keep their score.
    """
    shift = 1 + max(scores, default=0.0) - min(scores, default=0.0)
    task = record.task.id if record.task else ""
    found = [rewards.get((task, text)) for text in record.additional_outputs]
    return [
        score if reward is None else score + (shift if reward == 1.0 else -shift)
        for score, reward in zip(scores, found, strict=True)
    ]
