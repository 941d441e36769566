"""Frontend dialogues in, graded dialogues out: what is an answer, what is a failure, what is neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sweet_rl.records import Trajectory
from sweet_rl.rewards.html import PageGrade, PageGrader

FIELDS = ("similarity", "encoder", "render_failure")


def grade_page_trajectories(trajectories: Iterable[Trajectory], grader: PageGrader) -> Iterator[Trajectory]:
    """The same trajectories, in order, with `reward` set anew and `similarity`, `encoder`, `render_failure` beside it.

    A dialogue that failed is not graded: its reward is None. One that reached the turn limit gave no answer, whatever
    page it showed last: reward 0. Where the reference page gives no picture the reward is None.
    """
    queue: list[Trajectory] = []

    def rows() -> Iterator[tuple]:
        for trajectory in trajectories:
            queue.append(trajectory)
            if trajectory.ending != "failed":
                answer = None if trajectory.ending == "turn_limit" else trajectory.answer
                yield trajectory.id, trajectory.task.ground_truth, answer

    for _, grade in grader.grade_many(rows()):
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
    extra = {name: value for name, value in trajectory.extra.items() if name not in FIELDS}
    return replace(trajectory, reward=None, extra=extra)


def _graded(trajectory: Trajectory, grade: PageGrade) -> Trajectory:
    evidence = {"similarity": grade.similarity, "encoder": grade.encoder, "render_failure": grade.failure}
    return replace(trajectory, reward=grade.reward, extra={**trajectory.extra, **evidence})
