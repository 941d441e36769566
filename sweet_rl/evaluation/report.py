"""The summary of one graded run, for code, frontend pages and any other grader."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from sweet_rl.evaluation.statistics import best_of_k, bootstrap_interval, percent_text
from sweet_rl.records import Trajectory

MEASURES = {
    "tests_passed": "tests passed",
    "cosine_similarity": "cosine similarity",
    "reward": "reward",
    "success": "success",
}
COUNTS = {
    "failures": "answers failed by",
    "failed_tests": "tests failed by",
    "failed_dialogues": "dialogues that failed, not graded",
    "machine_failures": "answers that failed by the machine, not graded (--retry_failed grades them again)",
}


def summarise_rewards(trajectories: Sequence[Trajectory], k: int = 1, seed: int = 0) -> dict:
    """Summarise a graded run: rewards with their intervals, best of k, and counts of what failed.

    The field `grade` of the trajectories decides what is measured: pages (`similarity` or `encoder`) have
    `cosine_similarity`; code (`tests`) has `tests_passed` and `success`; everything else has `reward` and `success`.

    Args:
        trajectories: all dialogues of the run, failed ones included.
        k: if above 1, also report the best of k dialogues per task. Tasks with fewer than k graded dialogues are left
            out of it; their number is reported.
        seed: seed of the bootstrap.

    Returns:
        {dialogues, humans, graded, tasks, turns?, encoder?, failed_dialogues, machine_failures, ungradable_tasks,
        failures, failed_tests, best_of_k?} and one estimate {mean, low, high, tasks} per measure. The
        measures are absent if no dialogue is graded.
    """
    graded = [trajectory for trajectory in trajectories if trajectory.is_graded]
    finished = [trajectory for trajectory in trajectories if trajectory.ending != "failed"]
    failed = [trajectory for trajectory in trajectories if trajectory.ending == "failed"]
    grades = [trajectory.grade or {} for trajectory in finished]
    encoder = next((grade["encoder"] for grade in grades if grade.get("encoder")), None)
    of_pages = encoder is not None or any("similarity" in grade for grade in grades)
    of_code = any("tests" in grade or t.task.test_cases for t, grade in zip(finished, grades, strict=True))
    name = "cosine_similarity" if of_pages else "tests_passed" if of_code else "reward"
    measures = {name: _by_task(graded, lambda t: t.reward or 0.0)}
    if not of_pages:
        measures["success"] = _by_task(graded, lambda t: float(t.reward == 1.0))
    # An answer with failed tests and no other failure is wrong; a page or a graded reward below 1 has not failed.
    default = "wrong answer" if of_code and not of_pages else None
    kinds = [(t.grade or {}).get("failure") or default for t in graded if t.reward != 1.0]
    summary = {
        "dialogues": len(trajectories),
        "humans": _counts(sorted(label for t in trajectories if (label := t.human_label) is not None)),
        "graded": len(graded),
        "tasks": len({trajectory.task.id for trajectory in trajectories}),
        "failed_dialogues": _counts((t.failure or {}).get("kind", "unknown") for t in failed),
        "machine_failures": _counts(g["machine"].partition(":")[0] for g in grades if g.get("machine")),
        "ungradable_tasks": {
            t.task.id: grade["ungradable"] for t, grade in zip(finished, grades, strict=True) if grade.get("ungradable")
        },
        "failures": _counts(filter(None, kinds)),
        "failed_tests": _counts(
            test["reason"] for t in graded for test in (t.grade or {}).get("tests", ()) if not test["passed"]
        ),
    }
    if encoder is not None:
        summary["encoder"] = encoder
    if graded:
        summary |= {key: bootstrap_interval(values, seed=seed).to_dict() for key, values in measures.items()}
        summary["turns"] = float(np.mean([trajectory.turns for trajectory in graded]))
    if graded and k > 1:
        summary["best_of_k"] = _best_of_k(measures, k, seed)
    return summary


def summary_text(summary: Mapping) -> str:
    """The summary as lines for people. `rules` and `win_rate` are shown if the caller has added them."""
    lines = [f"{'dialogues':<17} {summary['dialogues']} of {summary['tasks']} tasks, {summary['graded']} graded"]
    if summary["humans"]:
        lines.append(f"{'simulated human':<17} {', '.join(summary['humans'])}")
    if "encoder" in summary:
        lines.append(f"{'image encoder':<17} {summary['encoder']}")
    lines += [f"{label:<17} {percent_text(summary[key])}" for key, label in MEASURES.items() if key in summary]
    best = summary.get("best_of_k", {})
    for key, label in MEASURES.items():
        if key in best:
            lines.append(f"best of {best['k']}, {label}: {percent_text(best[key])}")
    if best.get("tasks_with_too_few"):
        lines.append(f"best of {best['k']} leaves out {best['tasks_with_too_few']} tasks with too few graded dialogues")
    if "win_rate" in summary:
        lines.append(f"{'win rate':<17} {percent_text(summary['win_rate'])} against {summary['win_rate']['baseline']}")
    if "rules" in summary:
        lines.append(f"{'rules':<17} {summary['rules']}")
    if "turns" in summary:
        lines.append(f"{'turns':<17} {summary['turns']:.2f}")
    for key, label in COUNTS.items():
        if summary[key]:
            lines.append(f"{label}: " + ", ".join(f"{kind} {count}" for kind, count in summary[key].items()))
    if summary["ungradable_tasks"]:
        lines.append(f"ungradable tasks, not counted: {len(summary['ungradable_tasks'])}")
        lines += [f"  {task}: {reason}" for task, reason in summary["ungradable_tasks"].items()]
    return "\n".join(lines)


def _best_of_k(measures: Mapping[str, Mapping[str, list[float]]], k: int, seed: int) -> dict:
    """{k, tasks_with_too_few} and, if a task has k graded dialogues, an estimate per measure."""
    samples = {task: len(values) for by_task in measures.values() for task, values in by_task.items()}
    enough = [task for task, count in samples.items() if count >= k]
    found: dict = {"k": k, "tasks_with_too_few": len(samples) - len(enough)}
    if enough:
        for key, by_task in measures.items():
            best = {task: best_of_k(by_task[task], k) for task in enough}
            found[key] = bootstrap_interval(best, seed=seed).to_dict()
    return found


def _counts(kinds: Iterable[str]) -> dict[str, int]:
    return dict(Counter(kinds).most_common())


def _by_task(trajectories: Sequence[Trajectory], measure: Callable[[Trajectory], float]) -> dict[str, list[float]]:
    grouped: dict[str, list[float]] = {}
    for trajectory in trajectories:
        grouped.setdefault(trajectory.task.id, []).append(measure(trajectory))
    return grouped
