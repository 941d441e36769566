"""Frontend dialogues in, graded dialogues out: what is an answer, what is a failure, what is neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sweet_rl.records import Trajectory
from sweet_rl.rewards.base import Grade, Grader


def grade_page_trajectories(trajectories: Iterable[Trajectory], grader: Grader) -> Iterator[Trajectory]:
    """The same trajectories, in order, with `reward` set anew and the evidence in `grade`.

    A dialogue that failed is not graded: its reward is None. One that reached the turn limit gave no answer, whatever
    page it showed last: reward 0. If the reference page gives no picture the reward is None.
    """
    queue: list[Trajectory] = []

    def rows() -> Iterator[tuple]:
        for trajectory in trajectories:
            queue.append(trajectory)
            if trajectory.ending != "failed":
                answer = None if trajectory.ending == "turn_limit" else trajectory.answer
                yield trajectory.task, answer

    for grade in grader.grade_many(rows()):
        while queue[0].ending == "failed":
            yield _without_grade(queue.pop(0))
        yield _graded(queue.pop(0), grade)
    yield from map(_without_grade, queue)


def best_of_tasks(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Each task's graded dialogue with the highest reward, the first of equals; none of a task whose best earned 0."""
    best: dict[str, Trajectory] = {}
    for trajectory in (t for t in trajectories if t.is_graded):
        known = best.get(trajectory.task.id)
        if trajectory.reward > (0.0 if known is None else known.reward):
            best[trajectory.task.id] = trajectory
    return list(best.values())


def _without_grade(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, reward=None, grade=None)


def _graded(trajectory: Trajectory, grade: Grade) -> Trajectory:
    return replace(trajectory, reward=grade.reward, grade=grade.as_dict())
