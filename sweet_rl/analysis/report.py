"""The figures of one graded run, as a summary."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sweet_rl.analysis.statistics import best_of_k, bootstrap_interval, percent_text
from sweet_rl.records import Trajectory


def summarise(trajectories: Sequence[Trajectory], k: int = 1, seed: int = 0) -> dict:
    """The figures of one graded run: tests passed, success, best of k, each with its interval, and what failed.

    Best of k leaves out tasks of which failed dialogues leave fewer than k graded ones; their number is given.
    """
    graded = [trajectory for trajectory in trajectories if trajectory.is_graded]
    rewards = _by_task(graded, lambda t: t.reward)
    successes = _by_task(graded, lambda t: float(t.reward == 1.0))
    grades = {trajectory.id: trajectory.grade or {} for trajectory in trajectories}
    ungradable = {t.task.id: grades[t.id]["ungradable"] for t in trajectories if grades[t.id].get("ungradable")}
    failed = Counter((t.failure or {}).get("kind", "unknown") for t in trajectories if t.ending == "failed")
    kinds = Counter(grades[t.id].get("failure") or "wrong answer" for t in graded if t.reward != 1.0)
    tests = Counter(test["reason"] for t in graded for test in grades[t.id].get("tests", ()) if not test["passed"])
    summary = {
        "dialogues": len(trajectories),
        "graded": len(graded),
        "tasks": len({trajectory.task.id for trajectory in trajectories}),
        "failed_dialogues": dict(failed.most_common()),
        "ungradable_tasks": ungradable,
        "failures": dict(kinds.most_common()),
        "failed_tests": dict(tests.most_common()),
    }
    if graded:
        summary["tests_passed"] = bootstrap_interval(rewards, seed=seed).to_dict()
        summary["success"] = bootstrap_interval(successes, seed=seed).to_dict()
        summary["turns"] = float(np.mean([trajectory.turns for trajectory in graded]))
    if graded and k > 1:
        enough = {task: values for task, values in successes.items() if len(values) >= k}
        summary["best_of_k"] = {"k": k, "tasks_with_too_few": len(successes) - len(enough)}
        if enough:
            best = {task: best_of_k(values, k) for task, values in enough.items()}
            most = {task: best_of_k(rewards[task], k) for task in enough}
            summary["best_of_k"]["success"] = bootstrap_interval(best, seed=seed).to_dict()
            summary["best_of_k"]["tests_passed"] = bootstrap_interval(most, seed=seed).to_dict()
    return summary


def summary_text(summary: dict) -> str:
    """`summarise`'s figures as lines for people."""
    lines = [f"dialogues      {summary['dialogues']} of {summary['tasks']} tasks, {summary['graded']} graded"]
    for name, key in (("tests passed", "tests_passed"), ("success", "success")):
        if key in summary:
            lines.append(f"{name:<14} {percent_text(summary[key])}")
    best = summary.get("best_of_k", {})
    for name, key in (("tests", "tests_passed"), ("success", "success")):
        if key in best:
            lines.append(f"best of {best['k']}, {name}: {percent_text(best[key])}")
    if best.get("tasks_with_too_few"):
        lines.append(f"best of {best['k']} leaves out {best['tasks_with_too_few']} tasks with too few graded dialogues")
    if "rules" in summary:
        lines.append(f"rules          {summary['rules']}")
    if "turns" in summary:
        lines.append(f"turns          {summary['turns']:.2f}")
    for name, key in (
        ("answers failed by", "failures"),
        ("tests failed by", "failed_tests"),
        ("dialogues that failed, not graded", "failed_dialogues"),
    ):
        if summary[key]:
            lines.append(f"{name}: " + ", ".join(f"{kind} {count}" for kind, count in summary[key].items()))
    if summary["ungradable_tasks"]:
        lines.append(f"ungradable tasks, not counted: {len(summary['ungradable_tasks'])}")
        lines += [f"  {task}: {reason}" for task, reason in summary["ungradable_tasks"].items()]
    return "\n".join(lines)


def _by_task(trajectories: Sequence[Trajectory], measure) -> dict[str, list[float]]:
    grouped: dict[str, list[float]] = {}
    for trajectory in trajectories:
        grouped.setdefault(trajectory.task.id, []).append(measure(trajectory))
    return grouped
