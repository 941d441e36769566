"""Which of two trajectories of the same task is preferred, by their rewards."""

from collections.abc import Iterable, Iterator

from sweet_rl.records import Trajectory


def sibling_pairs(
    trajectories: Iterable[Trajectory], min_gap: float | None = None
) -> Iterator[tuple[Trajectory, Trajectory]]:
    """(chosen, rejected) of one task: reward 1 over less, or with `min_gap` rewards at least so far apart. Failed
    dialogues, ungradable tasks and dialogues without an agent's turn are left out."""
    siblings: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.is_graded and any(m["role"] == "assistant" for m in trajectory.dialogue_history):
            siblings.setdefault(trajectory.task.id, []).append(trajectory)
    for group in siblings.values():
        yield from ((a, b) for a in group for b in group if _preferred(a.reward, b.reward, min_gap))


def _preferred(reward: float, other: float, min_gap: float | None) -> bool:
    if min_gap is None:
        return reward == 1.0 > other
    return reward > other and reward - other >= min_gap - 1e-9  # 0.9 - 0.8 is a little less than 0.1
