"""The summary of one graded run, for code, frontend pages and any other grader."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from sweet_rl.evaluation.statistics import best_of_k, bootstrap_interval, percent_text
from sweet_rl.runs.printable import printable
from sweet_rl.runs.records import Trajectory

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
        trajectories: All dialogues of the run, failed ones included; they are read once and not kept.
        k: If above 1, also report the best of k dialogues per task. Tasks with fewer than k graded dialogues are left
            out of it; their number is reported.
        seed: Random seed of the bootstrap.

    Returns:
        {dialogues, humans, graded, tasks, turns?, encoder?, rules?, failed_dialogues, machine_failures,
        ungradable_tasks, failures, failed_tests, best_of_k?} and one estimate {mean, low, high, tasks} per measure. The
        measures are absent if no dialogue is graded.
    """
    run = _Counts()
    for trajectory in trajectories:
        run.add(trajectory)
    summary = {
        "dialogues": run.dialogues,
        "humans": _most_common(dict(sorted(run.humans.items()))),
        "graded": len(run.turns),
        "tasks": len(run.tasks),
        "failed_dialogues": _most_common(run.failed),
        "machine_failures": _most_common(run.machines),
        "ungradable_tasks": run.ungradable,
        "failures": _most_common(run.kinds_of_failure()),
        "failed_tests": _most_common(run.failed_tests),
    }
    if run.rules is not None:
        summary["rules"] = "those of the release, for comparison only" if run.rules == "paper" else run.rules
    if run.encoder is not None:
        summary["encoder"] = run.encoder
    if run.turns:
        measures = run.measures()
        summary |= {key: bootstrap_interval(values, seed=seed).to_dict() for key, values in measures.items()}
        summary["turns"] = float(np.mean(run.turns))
        if k > 1:
            summary["best_of_k"] = _best_of_k(measures, k, seed)
    return summary


class _Counts:
    """The dialogues of a run, counted."""

    def __init__(self) -> None:
        self.dialogues = 0
        self.tasks: set[str] = set()
        self.humans: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()  # dialogues, by what failed
        self.machines: Counter[str] = Counter()  # answers, by what the machine did
        self.ungradable: dict[str, str] = {}  # reason by task
        self.rewards: dict[str, list[float]] = {}  # by task
        self.turns: list[int] = []  # of each graded dialogue
        self.failed_tests: Counter[str] = Counter()
        self.encoder: str | None = None
        self.rules: str | None = None
        self._below_1: Counter[str | None] = Counter()  # graded answers, by their failure
        self._has_pages = self._has_tests = False

    def add(self, trajectory: Trajectory) -> None:
        """Count a dialogue."""
        self.dialogues += 1
        self.tasks.add(trajectory.task.id)
        if (human := trajectory.human_label) is not None:
            self.humans[human] += 1
        if trajectory.ending == "failed":
            self.failed[(trajectory.failure or {}).get("kind", "unknown")] += 1
        else:
            self._add_grade(trajectory, trajectory.grade or {})

    def _add_grade(self, trajectory: Trajectory, grade: Mapping) -> None:
        self.encoder, self.rules = self.encoder or grade.get("encoder"), self.rules or grade.get("rules")
        self._has_pages |= "similarity" in grade or "encoder" in grade
        self._has_tests |= "tests" in grade or bool(trajectory.task.test_cases)
        if grade.get("machine"):
            self.machines[grade["machine"].partition(":")[0]] += 1
        if grade.get("ungradable"):
            self.ungradable[trajectory.task.id] = grade["ungradable"]
        if trajectory.reward is not None:
            self.rewards.setdefault(trajectory.task.id, []).append(trajectory.reward)
            self.turns.append(trajectory.turns)
            if trajectory.reward != 1.0:
                self._below_1[grade.get("failure")] += 1
            self.failed_tests.update(test["reason"] for test in grade.get("tests", ()) if not test["passed"])

    def kinds_of_failure(self) -> Counter[str]:
        """The graded answers that failed, by kind. A page or a graded reward below 1 has not failed by itself."""
        kinds = Counter({kind: number for kind, number in self._below_1.items() if kind is not None})
        if self._below_1[None] and self._has_tests and not self._has_pages:
            kinds["wrong answer"] += self._below_1[None]
        return kinds

    def measures(self) -> dict[str, dict[str, list[float]]]:
        """The values of each measure by task."""
        if self._has_pages:
            return {"cosine_similarity": self.rewards}
        success = {task: [float(reward == 1.0) for reward in rewards] for task, rewards in self.rewards.items()}
        return {"tests_passed" if self._has_tests else "reward": self.rewards, "success": success}


def _most_common(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(counts).most_common())


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
    return printable("\n".join(lines))


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
