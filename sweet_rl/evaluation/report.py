"""The summary of one graded run, for code, frontend pages and any other grader."""

from collections import Counter
from collections.abc import Iterable, Mapping

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


def summarise_rewards(trajectories: Iterable[Trajectory], k: int = 1, seed: int = 0) -> dict:
    """Summarise a graded run: rewards with their intervals, best of k, and counts of what failed.

    The field `grade` of the trajectories decides what is measured: pages (`similarity` or `encoder`) have
    `cosine_similarity`; code (`tests`) has `tests_passed` and `success`; everything else has `reward` and `success`.

    Args:
        trajectories: all dialogues of the run, failed ones included; they are read once and not kept.
        k: if above 1, also report the best of k dialogues per task. Tasks with fewer than k graded dialogues are left
            out of it; their number is reported.
        seed: seed of the bootstrap.

    Returns:
        {dialogues, humans, graded, tasks, turns?, encoder?, rules?, failed_dialogues, machine_failures,
        ungradable_tasks, failures, failed_tests, best_of_k?} and one estimate {mean, low, high, tasks} per measure. The
        measures are absent if no dialogue is graded.
    """
    encoder = rules = None
    of_pages = of_code = False
    dialogues = 0
    humans, failed, machines, kinds, failed_tests = (Counter[str | None]() for _ in range(5))
    ungradable: dict[str, str] = {}
    tasks: set[str] = set()
    rewards: dict[str, list[float]] = {}
    turns: list[int] = []
    for one in trajectories:
        dialogues += 1
        tasks.add(one.task.id)
        if (label := one.human_label) is not None:
            humans[label] += 1
        if one.ending == "failed":
            failed[(one.failure or {}).get("kind", "unknown")] += 1
            continue
        grade = one.grade or {}
        encoder, rules = encoder or grade.get("encoder"), rules or grade.get("rules")
        of_pages |= "similarity" in grade
        of_code |= "tests" in grade or bool(one.task.test_cases)
        if grade.get("machine"):
            machines[grade["machine"].partition(":")[0]] += 1
        if grade.get("ungradable"):
            ungradable[one.task.id] = grade["ungradable"]
        if one.reward is not None:
            rewards.setdefault(one.task.id, []).append(one.reward)
            turns.append(one.turns)
            if one.reward != 1.0:
                kinds[grade.get("failure")] += 1
            failed_tests.update(test["reason"] for test in grade.get("tests", ()) if not test["passed"])
    of_pages |= encoder is not None
    name = "cosine_similarity" if of_pages else "tests_passed" if of_code else "reward"
    measures = {name: rewards}
    if not of_pages:
        measures["success"] = {task: [float(value == 1.0) for value in values] for task, values in rewards.items()}
    # An answer with failed tests and no other failure is wrong; a page or a graded reward below 1 has not failed.
    wrong = kinds.pop(None, 0)
    if wrong and of_code and not of_pages:
        kinds["wrong answer"] += wrong
    summary = {
        "dialogues": dialogues,
        "humans": dict(Counter(dict(sorted(humans.items()))).most_common()),
        "graded": len(turns),
        "tasks": len(tasks),
        "failed_dialogues": dict(failed.most_common()),
        "machine_failures": dict(machines.most_common()),
        "ungradable_tasks": ungradable,
        "failures": dict(kinds.most_common()),
        "failed_tests": dict(failed_tests.most_common()),
    }
    if rules is not None:
        summary["rules"] = "those of the release, for comparison only" if rules == "paper" else rules
    if encoder is not None:
        summary["encoder"] = encoder
    if turns:
        summary |= {key: bootstrap_interval(values, seed=seed).to_dict() for key, values in measures.items()}
        summary["turns"] = float(np.mean(turns))
    if turns and k > 1:
        summary["best_of_k"] = _best_of_k(measures, k, seed)
    return summary


def summary_text(summary: Mapping) -> str:
    """The summary as lines for people. `win_rate` is shown if the caller has added it."""
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
