"""Which of two graded dialogues of a task is preferred (the paper, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sweet_rl.runs.records import Trajectory


def sibling_pairs(
    trajectories: Iterable[Trajectory], min_gap: float | None = None
) -> Iterator[tuple[Trajectory, Trajectory]]:
    """All (chosen, rejected) pairs of trajectories of the same task, task by task.

    Dialogues that are not graded, and dialogues without a message of the agent, are left out.

    Args:
        trajectories: Graded trajectories.
        min_gap: Smallest difference of rewards. None: chosen has a reward of 1 and rejected a lower one.
    """
    siblings: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.is_graded and trajectory.turns:
            siblings.setdefault(trajectory.task.id, []).append(trajectory)
    for group in siblings.values():
        yield from ((a, b) for a in group for b in group if _is_preferred(a.reward, b.reward, min_gap))


def _is_preferred(reward: float | None, other: float | None, min_gap: float | None) -> bool:
    if reward is None or other is None:
        return False
    if min_gap is None:
        return reward == 1.0 > other
    return reward > other and reward - other >= min_gap - 1e-9  # in floating point, 0.9 - 0.8 is below 0.1
