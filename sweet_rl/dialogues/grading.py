"""Give trajectories their rewards: which dialogues are graded, and which of two graded dialogues is preferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from sweet_rl.dialogues.protocols import Grader
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory


def grade_trajectories(trajectories: Iterable[Trajectory], grader: Grader) -> Iterator[Trajectory]:
    """Grade trajectories; they come back in the same order, with `reward` and `grade` (`Grade.as_dict`) set anew.

    A dialogue that failed is not graded: its reward is None. A dialogue that reached the turn limit has no answer,
    whatever its last message contains.
    """
    waiting: list[Trajectory] = []

    def jobs() -> Iterator[tuple[Task, str | None]]:
        for trajectory in trajectories:
            waiting.append(trajectory)
            if trajectory.ending != "failed":
                yield trajectory.task, None if trajectory.ending == "turn_limit" else trajectory.answer

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


def best_of_tasks(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The graded dialogue with the highest reward per task, the first of equal ones; only if its reward is above 0."""
    best: dict[str, tuple[float, Trajectory]] = {}
    for trajectory in trajectories:
        highest = best[trajectory.task.id][0] if trajectory.task.id in best else 0.0
        if trajectory.reward is not None and trajectory.is_graded and trajectory.reward > highest:
            best[trajectory.task.id] = trajectory.reward, trajectory
    return [trajectory for _, trajectory in best.values()]


def sibling_pairs(
    trajectories: Iterable[Trajectory], min_gap: float | None = None
) -> Iterator[tuple[Trajectory, Trajectory]]:
    """All (chosen, rejected) pairs of trajectories of the same task.

    Dialogues that are not graded, and dialogues without a message of the agent, are left out.

    Args:
        trajectories: Graded trajectories.
        min_gap: Smallest difference of rewards. None: chosen has a reward of 1 and rejected a lower one.

    Raises:
        UserError: Two tasks have the same id.
    """
    siblings: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.is_graded and trajectory.turns:
            group = siblings.setdefault(trajectory.task.id, [])
            group.append(trajectory)
            if trajectory.task.content != group[0].task.content:
                raise UserError(
                    f"the dialogues {group[0].id!r} and {trajectory.id!r} are of different tasks with the same id "
                    f"{trajectory.task.id!r}, so their rewards cannot be compared. Give each task an id of its own."
                )
    for group in siblings.values():
        yield from ((a, b) for a in group for b in group if _preferred(a.reward, b.reward, min_gap))


def _preferred(reward: float | None, other: float | None, min_gap: float | None) -> bool:
    if reward is None or other is None:
        return False
    if min_gap is None:
        return reward == 1.0 > other
    return reward > other and reward - other >= min_gap - 1e-9  # in floating point, 0.9 - 0.8 is below 0.1
