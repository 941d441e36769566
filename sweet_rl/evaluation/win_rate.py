"""The win rate of a run against a baseline on the same tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.evaluation.graded_file import GradedFile, check_comparable, grader_of
from sweet_rl.evaluation.statistics import Estimate, bootstrap_interval, win_share
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory


def check_baseline(
    baseline: GradedFile,
    path: str,
    trajectories: Sequence[Trajectory],
    settings: Mapping[str, object],
    draws_pages: bool,
    mix_humans: bool,
) -> None:
    """Raise UserError, before anything is graded, if the baseline has other tasks, another grader or another human.

    Args:
        baseline: Graded file of the other run.
        path: Path of the graded file of this run.
        trajectories: Trajectories that will be graded.
        settings: Settings of their grading.
        draws_pages: Whether the domain compares pictures of pages.
        mix_humans: Whether the simulated humans may differ.
    """
    grader = grader_of(path, [], settings) | {"kind": "page" if draws_pages else "code"}
    if not draws_pages and baseline.grader.get("kind") == "function":  # compared once the answers are graded
        grader |= {name: baseline.grader[name] for name in ("kind", "grader")}
    if "image_encoder" in settings:
        grader["encoder"] = settings["image_encoder"]
    own = GradedFile(path, trajectories, grader)
    check_comparable({"this run": [own], "the baseline": [baseline]}, mix_humans)


def win_rate(graded: GradedFile, baseline: GradedFile, seed: int, mix_humans: bool) -> Estimate:
    """How often a dialogue of `graded` earns more than one of `baseline` on the same task; ties count half.

    Raises:
        UserError: The two are not comparable, or have no task in common that is graded in both.
    """
    check_comparable({"this run": [graded], "the baseline": [baseline]}, mix_humans)
    own, other = _rewards(graded), _rewards(baseline)
    shared = sorted(own.keys() & other.keys())
    if not shared:
        raise UserError(f"{baseline.path}: no task has a graded dialogue in it and in {graded.path}.")
    return bootstrap_interval({task: win_share(own[task], other[task]) for task in shared}, seed=seed)


def _rewards(file: GradedFile) -> dict[str, list[float]]:
    rewards: dict[str, list[float]] = {}
    for trajectory in file.trajectories:
        if trajectory.is_graded and trajectory.reward is not None:
            rewards.setdefault(trajectory.task.id, []).append(trajectory.reward)
    return rewards
