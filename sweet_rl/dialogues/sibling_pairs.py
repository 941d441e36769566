"""Which of two graded dialogues of a task is preferred (the paper, section 4), and which one of all is the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory


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
        yield from ((a, b) for a in group for b in group if is_preferred(a.reward, b.reward, min_gap))


def is_preferred(reward: float | None, other: float | None, min_gap: float | None = None) -> bool:
    """Whether a dialogue with `reward` is chosen over one with the reward `other`; arguments as in `sibling_pairs`."""
    if reward is None or other is None:
        return False
    if min_gap is None:
        return reward == 1.0 > other
    return reward > other and reward - other >= min_gap - 1e-9  # in floating point, 0.9 - 0.8 is below 0.1


def best_of_tasks(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The graded dialogue with the highest reward per task, the first of equal ones; only if its reward is above 0."""
    best: dict[str, tuple[float, Trajectory]] = {}
    for trajectory in trajectories:
        highest = best[trajectory.task.id][0] if trajectory.task.id in best else 0.0
        if trajectory.reward is not None and trajectory.is_graded and trajectory.reward > highest:
            best[trajectory.task.id] = trajectory.reward, trajectory
    return [trajectory for _, trajectory in best.values()]
