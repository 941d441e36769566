"""Give trajectories their rewards: which dialogues are graded, and by which answer. The graders are the domains'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from sweet_rl.dialogues.protocols import Grader
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import RELEASED, Task, Trajectory


def grade_trajectories(trajectories: Iterable[Trajectory], grader: Grader) -> Iterator[Trajectory]:
    """Grade trajectories; they come back in the same order, with `reward` and `grade` (`Grade.as_dict`) set anew.

    A dialogue that failed is not graded: its reward is None. A dialogue that reached the turn limit has no answer,
    whatever its last message contains, unless it was played under the released protocol.
    """
    waiting: list[Trajectory] = []

    def jobs() -> Iterator[tuple[Task, str | None]]:
        for trajectory in trajectories:
            waiting.append(trajectory)
            if trajectory.ending != "failed":
                unanswered = trajectory.ending == "turn_limit" and trajectory.protocol != RELEASED
                yield trajectory.task, None if unanswered else trajectory.answer

    def not_graded() -> Iterator[Trajectory]:
        while waiting and waiting[0].ending == "failed":
            yield replace(waiting.pop(0), reward=None, grade=None)

    for grade in grader.grade_many(jobs()):
        yield from not_graded()
        yield replace(waiting.pop(0), reward=grade.reward, grade=grade.as_dict())
    yield from not_graded()


def reference_answers(tasks: Sequence[Task]) -> list[Trajectory]:
    """The reference solution of each task as the answer of an empty dialogue: the answers of a perfect agent."""
    return [Trajectory(task, [], answer=task.ground_truth, id=task.id, ending="answered") for task in tasks]


def first_tasks(trajectories: Sequence[Trajectory], num_tasks: int | None) -> list[Trajectory]:
    """All trajectories of the first `num_tasks` tasks, in the same order. Raises UserError if it is below 1."""
    if num_tasks is None:
        return list(trajectories)
    if num_tasks < 1:
        raise UserError(f"--num_tasks is {num_tasks}; it must be at least 1.")
    tasks = set(islice(dict.fromkeys(trajectory.task.id for trajectory in trajectories), num_tasks))
    return [trajectory for trajectory in trajectories if trajectory.task.id in tasks]
