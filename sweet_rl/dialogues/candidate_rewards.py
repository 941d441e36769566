"""Rewards of the candidates that end the dialogue with an answer: what a grader can tell, a critic need not guess.

They are made between steps 4 and 5; the ranking reads them if it is given `--place_answers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any

from sweet_rl.dialogues.domain import Domain, Grader
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
    """Write a file of candidates with `answer_rewards`. A killed run continues with the same call.

    Args:
        domain: Domain of the tasks.
        grading: Settings that `domain.grader` takes.
        input_path: Candidates of sample_best_of_n.py.
        output_path: The same records, in the same order, with `answer_rewards`.
        step: Number of records that are read, and whether an older output is replaced.

    Returns:
        The summary: turns, answers, right.

    Raises:
        UserError: A record has no task, or the tasks are another domain's; or, once the other records are written, the
            machine failed on some.
    """
    if domain.draws_pages:
        raise UserError(f"--task_type {domain.name} grades by likeness of pages: no reward says which answer is right.")
    records = read_records(input_path, TurnCandidates, step.limit)
    domain.check([_task(record, input_path) for record in records], input_path)

    settings = to_settings(grading, step, task_type=domain.name)
    with open_run(output_path, settings, [input_path, domain.source], step.overwrite) as run:
        if run.finished:
            return run.show()
        missing = [record for record in records if record.id not in run.done]
        failures = []
        with domain.make_grader(grading) as grader, progress_bar(total=len(records), initial=len(run.done)) as bar:
            print(grader.describe())
            for record, failure in rewarded(missing, domain, grader):
                if failure is None:
                    run.write(record.to_dict())
                else:
                    failures.append(failure)
                bar.update()
        if failures:
            raise UserError(
                f"{len(failures)} turns have an answer that could not be graded on this machine ({failures[0]}); the "
                f"others are in {run.path}. Run the same command again to do them."
            )
        run.sort(record.id for record in records)
        rewards = [reward for row in run.records() for reward in row["answer_rewards"] if reward is not None]
        return run.finish({"turns": len(run.done), "answers": len(rewards), "right": rewards.count(1.0)})


def rewarded(
    records: Sequence[TurnCandidates], domain: Domain, grader: Grader
) -> Iterator[tuple[TurnCandidates, str | None]]:
    """Yield each record with its `answer_rewards`, and what the machine did to one of its answers if it failed.

    An answer is graded once for each task.

    Raises:
        UserError: A record has no task, or its dialogue is not possible by the rules of the domain.
    """
    answers = [[answer_of(domain, record, text) for text in spoken_candidates(record)] for record in records]
    tasks = [_task(record, "the candidates") for record in records]
    jobs: dict[tuple[str, str | None], tuple[Task, str]] = {
        (task.id, answer): (task, answer)
        for task, own in zip(tasks, answers, strict=True)
        for answer in own
        if answer is not None
    }
    grades = dict(zip(jobs, grader.grade_many(jobs.values()), strict=True))
    for record, task, own in zip(records, tasks, answers, strict=True):
        found = [grades.get((task.id, answer)) for answer in own]
        failure = next((grade.machine for grade in found if grade is not None and grade.machine is not None), None)
        yield replace(record, answer_rewards=[None if grade is None else grade.reward for grade in found]), failure


def answer_of(domain: Domain, record: TurnCandidates, text: str) -> str | None:
    """The answer of the dialogue if `text` is what the agent says next; None if that does not end it.

    The messages before it are played again, because a domain's answer may be made of the whole dialogue.
    """
    before = record.dialogue or []
    candidate: Message = {"role": "assistant", "content": text}
    environment = domain.begin(domain.agent_template(), max_turns=len(before) + 2)(_task(record, "the candidates"))
    try:
        for message in (*dropwhile(lambda message: message["role"] != "assistant", before), candidate):
            if message["role"] == "assistant":
                environment.step(Completion(message["content"], None, None, "stop"))
            else:
                environment.add_human_reply(message["content"])
    except ValueError as error:
        raise UserError(
            f"candidates {record.id!r}: by the rules of the domain {domain.name!r} their dialogue is not possible: "
            f"{error} Give the --task_type that it was played with."
        ) from error
    return environment.answer if environment.ending == "answered" else None


def _task(record: TurnCandidates, where: str) -> Task:
    if record.task is None:
        raise UserError(
            f"{where}: candidates {record.id!r} have no task to grade their answers by. Sample them again with "
            "sample_best_of_n.py."
        )
    return record.task
