"""Grades the candidates that are answers, between steps 4 and 5; rank_best_of_n.py --place_answers uses the rewards."""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile
from typing import Any

from sweet_rl.dialogues.domain import Domain, Grade
from sweet_rl.models.base import Completion, Message
from sweet_rl.models.texts.chat import spoken_candidates
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Task, TurnCandidates, read_records
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings


def grade_candidates(
    domain: Domain, grading: Any, input_path: str, output_path: str, step: StepSettings
) -> dict[str, Any]:
    """Write a file of candidates with `answer_rewards`. An answer is graded once for each task.

    Args:
        domain: Domain of the tasks.
        grading: Settings that `domain.grader` takes.
        input_path: Candidates of sample_best_of_n.py.
        output_path: The same records, in the same order, with `answer_rewards`.
        step: Number of records that are read, and whether an older output is replaced.

    Returns:
        The summary: turns, answers, right.

    Raises:
        UserError: A record has no task or an impossible dialogue, the tasks are another domain's, or this machine
            failed.
    """
    if domain.draws_pages:
        raise UserError(f"--task_type {domain.name} grades by likeness of pages: no reward says which answer is right.")
    records = read_records(input_path, TurnCandidates, step.limit)
    tasks = [_task(record) for record in records]
    domain.check(tasks, input_path)

    settings = to_settings(grading, step, task_type=domain.name)
    with open_run(output_path, settings, [input_path, domain.source], step.overwrite) as run:
        if run.finished:
            return run.show()
        answers = [[answer_of(domain, record, text) for text in spoken_candidates(record)] for record in records]
        jobs: dict[tuple[str, str | None], tuple[Task, str]] = {}
        for task, texts in zip(tasks, answers, strict=True):
            jobs |= {(task.id, text): (task, text) for text in texts if text is not None}
        with domain.make_grader(grading) as grader:
            print(grader.describe())
            grades = progress_bar(grader.grade_many(jobs.values()), total=len(jobs), unit=" answers")
            rewards = dict(zip(jobs, map(_reward, grades), strict=True))
        known: list[float] = []
        for record, task, texts in zip(records, tasks, answers, strict=True):
            found = [rewards.get((task.id, text)) for text in texts]
            known += [reward for reward in found if reward is not None]
            if record.id not in run.done:
                run.write(replace(record, answer_rewards=found).to_dict())
        return run.finish({"turns": len(records), "answers": len(known), "right": known.count(1.0)})


def _reward(grade: Grade) -> float | None:
    if grade.machine is not None:
        raise UserError(f"an answer could not be graded on this machine: {grade.machine}. Run the same command again.")
    return grade.reward


def answer_of(domain: Domain, record: TurnCandidates, text: str) -> str | None:
    """The answer of the dialogue if `text` is what the agent says next; None if that does not end it.

    The messages before it are played again, because a domain's answer may be made of the whole dialogue.
    """
    before = record.dialogue or []
    candidate: Message = {"role": "assistant", "content": text}
    environment = domain.begin(domain.agent_template(), max_turns=len(before) + 2)(_task(record))
    try:
        for message in (*dropwhile(lambda message: message["role"] != "assistant", before), candidate):
            if message["role"] == "assistant":
                environment.step(Completion(message["content"], None, None, "stop"))
            else:
                environment.add_human_reply(message["content"])
    except ValueError as error:
        raise UserError(
            f"candidates {record.id!r}: {error} Give the --task_type that their dialogue was played with."
        ) from error
    return environment.answer if environment.ending == "answered" else None


def _task(record: TurnCandidates) -> Task:
    if record.task is None:
        raise UserError(
            f"candidates {record.id!r} have no task to grade their answers by: sample them with sample_best_of_n.py."
        )
    return record.task
