"""Dialogues in, graded dialogues out: what is an answer, what is a failure, what is neither."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sweet_rl.errors import UserError
from sweet_rl.records import Task, Trajectory
from sweet_rl.rewards.base import Grade, Grader


def grade_trajectories(trajectories: Iterable[Trajectory], grader: Grader) -> Iterator[Trajectory]:
    """The same trajectories, in order, with `reward` set anew and the evidence in `grade`.

    A dialogue that failed is not graded: its reward is None. One that reached the turn limit gave no answer,
    whatever its last message says: reward 0. Where the task is ungradable the reward is None and the grade says why.
    The evidence: {failure, ungradable, level, tests: [{name, passed, reason?, message?}], rules?, machine?}.
    """

    def rows(queue: list):
        for trajectory in trajectories:
            queue.append(trajectory)
            if trajectory.ending != "failed":
                answer = None if trajectory.ending == "turn_limit" else trajectory.answer
                yield trajectory.task, answer

    queue: list[Trajectory] = []
    for grade in grader.grade_many(rows(queue)):
        while queue[0].ending == "failed":
            yield _not_graded(queue.pop(0))
        yield _graded(queue.pop(0), grade)
    yield from map(_not_graded, queue)


def reference_answers(tasks: Sequence[Task]) -> list[Trajectory]:
    """Each task's reference solution as the answer of an empty dialogue: what a perfect agent would give."""
    return [Trajectory(task, [], answer=task.ground_truth, id=task.id, ending="answered") for task in tasks]


def first_tasks(trajectories: Sequence[Trajectory], num_tasks: int | None) -> list[Trajectory]:
    """All trajectories of the first `num_tasks` tasks, in the file's order. Raises UserError below 1."""
    if num_tasks is None:
        return list(trajectories)
    if num_tasks < 1:
        raise UserError(f"--num_tasks is {num_tasks}; it must be at least 1.")
    tasks = list(dict.fromkeys(trajectory.task.id for trajectory in trajectories))[:num_tasks]
    return [trajectory for trajectory in trajectories if trajectory.task.id in set(tasks)]


def _not_graded(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, reward=None, grade=None)


def _graded(trajectory: Trajectory, grade: Grade) -> Trajectory:
    return replace(trajectory, reward=grade.reward, grade=grade.as_dict())
