"""The summary of one graded run, for code, frontend pages and any other grader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sweet_rl.evaluation.statistics import best_of_k, bootstrap_interval, percent_text
from sweet_rl.runs.errors import printable
from sweet_rl.runs.records import Trajectory

MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
LABELS = {
    "tests_passed": "tests passed",
    "cosine_similarity": "cosine similarity",
    "reward": "reward",
    "success": "success",
}
COUNTS = {
    "failures": "answers failed by",
    "failed_tests": "tests failed by",
    "missing_modules": "answers that a module was missing for",
    "failed_dialogues": "dialogues that failed, not graded",
    "machine_failures": "answers that failed by the machine, not graded (--retry_failed grades them again)",
}


def summarise_rewards(trajectories: Iterable[Trajectory], k: int = 1, seed: int = 0) -> dict[str, Any]:
    """Summarise a graded run: rewards with their intervals, best of k, and counts of what failed.

    The field `grade` of the trajectories decides what is measured: pages (`similarity` or `encoder`) have
    `cosine_similarity`; code (`tests`) has `tests_passed` and `success`; everything else has `reward` and `success`.

    Args:
        trajectories: All dialogues of the run, failed ones included.
        k: If above 1, also report the best of k dialogues per task. Tasks with fewer than k graded dialogues are left
            out of it; their number is reported.
        seed: Random seed of the bootstrap.

    Returns:
        {dialogues, humans, graded, tasks, turns?, encoder?, rules?, failed_dialogues, machine_failures,
        ungradable_tasks, failures, failed_tests, missing_modules, best_of_k?} and one estimate {mean, low, high, tasks}
        per measure. The measures are absent if no dialogue is graded.
    """
    rows = list(trajectories)
    played = [(one, _own_facts(one.grade or {})) for one in rows if one.ending != "failed"]
    graded = [(one, grade) for one, grade in played if one.reward is not None]
    has_pages = any("similarity" in grade or "encoder" in grade for _, grade in played)
    has_tests = any("tests" in grade or (one.task.test_cases and "grader" not in grade) for one, grade in played)
    # A page, or a reward of one's own grader, that is below 1 has not failed by itself.
    unexplained = "wrong answer" if has_tests and not has_pages else None
    failed_tests = [[test for test in grade.get("tests", ()) if not test["passed"]] for _, grade in graded]
    counts = {
        "failures": [grade.get("failure") or unexplained for one, grade in graded if one.reward != 1.0],
        "failed_tests": [test["reason"] for tests in failed_tests for test in tests],
        "missing_modules": [name for tests in failed_tests for name in _missing_modules(tests)],
        "failed_dialogues": [(one.failure or {}).get("kind", "unknown") for one in rows if one.ending == "failed"],
        "machine_failures": [grade["machine"].partition(":")[0] for _, grade in played if grade.get("machine")],
    }
    summary: dict[str, Any] = {
        "dialogues": len(rows),
        "humans": dict(Counter(sorted(label for one in rows if (label := one.human_label))).most_common()),
        "graded": len(graded),
        "tasks": len({one.task.id for one in rows}),
        "ungradable_tasks": {one.task.id: grade["ungradable"] for one, grade in played if grade.get("ungradable")},
        **{name: dict(Counter(filter(None, counts[name])).most_common()) for name in COUNTS},
    }
    for _, grade in played:
        summary |= {name: grade[name] for name in ("encoder", "rules") if grade.get(name)}
    if summary.get("rules") == "paper":
        summary["rules"] = "those of the release, for comparison only"
    if graded:
        rewards: dict[str, list[float]] = {}
        for one, _ in graded:
            rewards.setdefault(one.task.id, []).append(one.reward or 0.0)
        success = {task: [float(reward == 1.0) for reward in values] for task, values in rewards.items()}
        measures = {"tests_passed" if has_tests else "reward": rewards, "success": success}
        if has_pages:
            measures = {"cosine_similarity": rewards}
        summary |= {key: bootstrap_interval(values, seed).to_dict() for key, values in measures.items()}
        summary["turns"] = float(np.mean([one.turns for one, _ in graded]))
        if k > 1:
            summary["best_of_k"] = _best_of_k(measures, k, seed)
    return summary


def _own_facts(grade: dict) -> dict:
    """The part of a grade that the package wrote, because the evidence of a user's reward may have any names."""
    if "grader" not in grade:
        return grade
    return {name: grade[name] for name in ("grader", "failure", "ungradable", "machine") if name in grade}


def _missing_modules(failed: Sequence[Mapping]) -> set[str]:
    """The modules that the failed tests of an answer did not find."""
    found = (MISSING_MODULE.match(str(test.get("message"))) for test in failed)
    return {match[1] for match in found if match}


def _best_of_k(measures: Mapping[str, Mapping[str, list[float]]], k: int, seed: int) -> dict:
    """{k, tasks_with_too_few} and, if a task has k graded dialogues, an estimate per measure."""
    samples = {task: len(values) for by_task in measures.values() for task, values in by_task.items()}
    enough = [task for task, count in samples.items() if count >= k]
    found: dict = {"k": k, "tasks_with_too_few": len(samples) - len(enough)}
    if enough:
        for key, by_task in measures.items():
            best = {task: best_of_k(by_task[task], k) for task in enough}
            found[key] = bootstrap_interval(best, seed).to_dict()
    return found


def summary_text(summary: Mapping) -> str:
    """The summary as lines for people. `win_rate` is shown if the caller has added it."""
    lines = [f"{'dialogues':<17} {summary['dialogues']} of {summary['tasks']} tasks, {summary['graded']} graded"]
    if summary["humans"]:
        lines.append(f"{'simulated human':<17} {', '.join(summary['humans'])}")
    if "encoder" in summary:
        lines.append(f"{'image encoder':<17} {summary['encoder']}")
    lines += [f"{label:<17} {percent_text(summary[key])}" for key, label in LABELS.items() if key in summary]
    best = summary.get("best_of_k", {})
    for key, label in LABELS.items():
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
    return printable("\n".join(lines))
