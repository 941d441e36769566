"""Figures of graded runs: one run's summary, and a table that compares several runs on the same tasks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweet_rl.errors import UserError
from sweet_rl.grading.statistics import Estimate, best_of_k, bootstrap_interval, paired_difference
from sweet_rl.records import Trajectory

COLUMNS = ("run", "seeds", "tests passed %", "success %", "95 % interval", "turns")


def is_graded(trajectory: Trajectory) -> bool:
    """Whether a dialogue counts: it did not fail, and its task can be graded."""
    return trajectory.ending != "failed" and trajectory.reward is not None


def turns(trajectory: Trajectory) -> int:
    """How often the agent spoke, its answer included."""
    return sum(message["role"] == "assistant" for message in trajectory.dialogue_history)


def summarise(trajectories: Sequence[Trajectory], k: int = 1, seed: int = 0) -> dict:
    """The figures of one graded run: tests passed, success, best of k, each with its interval, and what failed.

    Best of k leaves out tasks of which failed dialogues leave fewer than k graded ones; their number is given.
    """
    graded = [trajectory for trajectory in trajectories if is_graded(trajectory)]
    rewards = _by_task(graded, lambda t: t.reward)
    successes = _by_task(graded, lambda t: float(t.reward == 1.0))
    grades = {trajectory.id: trajectory.extra.get("grade") or {} for trajectory in trajectories}
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
        summary["turns"] = float(np.mean([turns(trajectory) for trajectory in graded]))
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
            lines.append(f"{name:<14} {_percent(summary[key])}")
    best = summary.get("best_of_k", {})
    for name, key in (("tests", "tests_passed"), ("success", "success")):
        if key in best:
            lines.append(f"best of {best['k']}, {name}: {_percent(best[key])}")
    if best.get("tasks_with_too_few"):
        lines.append(f"best of {best['k']} leaves out {best['tasks_with_too_few']} tasks with too few graded dialogues")
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


@dataclass(frozen=True)
class Row:
    """One line of the comparison; `differences` of success by baseline name (None to itself)."""

    name: str
    seeds: int
    tests_passed: Estimate
    success: Estimate
    turns: float
    differences: dict[str, Estimate | None]
    success_by_seed: list[float]


@dataclass(frozen=True)
class Comparison:
    """Several runs on the same tasks. `left_out`: tasks with no graded dialogue in one of the runs."""

    rows: list[Row]
    baselines: list[str]
    tasks: int
    left_out: list[str]

    def to_dict(self) -> dict:
        return {
            "tasks": self.tasks,
            "left_out_tasks": self.left_out,
            "baselines": self.baselines,
            "runs": [
                {
                    "name": row.name,
                    "seeds": row.seeds,
                    "tests_passed": row.tests_passed.to_dict(),
                    "success": row.success.to_dict(),
                    "success_by_seed": row.success_by_seed,
                    "turns": row.turns,
                    "difference_to": {b: d.to_dict() for b, d in row.differences.items() if d is not None},
                }
                for row in self.rows
            ],
        }

    def cells(self) -> list[list[str]]:
        """The table's cells, heading first."""
        table = [[*COLUMNS, *(f"success vs {name}" for name in self.baselines)]]
        for row in self.rows:
            cells = [
                row.name,
                str(row.seeds),
                f"{100 * row.tests_passed.mean:.1f}",
                f"{100 * row.success.mean:.1f}",
                f"{100 * row.success.low:.1f} to {100 * row.success.high:.1f}",
                f"{row.turns:.2f}",
            ]
            table.append(cells + [_difference(row.differences[name]) for name in self.baselines])
        return table

    def text(self) -> str:
        table = self.cells()
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        lines = ["  ".join(_aligned(cell, width, i) for i, (cell, width) in enumerate(zip(line, widths, strict=True)))
                 for line in table]  # fmt: skip
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join(line.rstrip() for line in [*lines, self.note()])

    def markdown(self) -> str:
        heading, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in self.cells()]
        rule = "| --- |" + " ---: |" * (len(COLUMNS) - 1 + len(self.baselines))
        return "\n".join([heading, rule, *body, "", self.note(), ""])

    def note(self) -> str:
        note = f"{self.tasks} tasks; intervals: 95 %, bootstrap over tasks; p: sign-flip test over tasks."
        return note + (f" Left out for want of a graded dialogue: {len(self.left_out)}." if self.left_out else "")


def compare(
    runs: Mapping[str, Sequence[Sequence[Trajectory]]], baselines: Sequence[str] = (), seed: int = 0
) -> Comparison:
    """Compare graded runs on the same tasks.

    runs: for each name the trajectories of each of its seeds; a task's value is the mean over its samples in each
    seed, then over seeds, and every interval resamples tasks.
    Raises UserError: runs on different tasks, an unknown baseline, nothing graded.
    """
    _check_same_tasks(runs)
    unknown = [name for name in baselines if name not in runs]
    if unknown:
        raise UserError(f"The baseline {unknown[0]!r} is none of the runs: {', '.join(runs)}.")
    tasks = {trajectory.task.id for seeds in runs.values() for rows in seeds for trajectory in rows}
    counted = set(tasks)
    for seeds in runs.values():
        for rows in seeds:
            counted &= {trajectory.task.id for trajectory in rows if is_graded(trajectory)}
    if not counted:
        raise UserError("No task has a graded dialogue in every run: were the files made by evaluate_code.py?")
    values = {name: [_values(rows, counted) for rows in seeds] for name, seeds in runs.items()}
    success = {name: _mean_over_seeds([v["success"] for v in seeds]) for name, seeds in values.items()}
    rows = [
        Row(
            name=name,
            seeds=len(seeds),
            tests_passed=bootstrap_interval(_mean_over_seeds([v["reward"] for v in seeds]), seed=seed),
            success=bootstrap_interval(success[name], seed=seed),
            turns=float(np.mean(list(_mean_over_seeds([v["turns"] for v in seeds]).values()))),
            differences={
                b: None if b == name else paired_difference(success[name], success[b], seed=seed) for b in baselines
            },
            success_by_seed=[float(np.mean(list(v["success"].values()))) for v in seeds],
        )
        for name, seeds in values.items()
    ]
    return Comparison(rows, list(baselines), len(counted), sorted(tasks - counted))


def _check_same_tasks(runs: Mapping[str, Sequence[Sequence[Trajectory]]]) -> None:
    if not runs or not all(runs.values()):
        raise UserError("Every run needs a name and at least one file of graded trajectories.")
    first_name, first = None, None
    for name, seeds in runs.items():
        for number, rows in enumerate(seeds):
            tasks = {trajectory.task.id for trajectory in rows}
            if first is None:
                first_name, first = name, tasks
            elif tasks != first:
                odd = sorted(tasks ^ first)
                raise UserError(
                    f"The runs {first_name!r} and {name!r} (file {number + 1}) are on different tasks: {len(odd)} are "
                    f"in only one of them, the first is {odd[0]}. Evaluate all on the same tasks file and --num_tasks."
                )


def _values(rows: Sequence[Trajectory], tasks: set[str]) -> dict[str, dict[str, float]]:
    graded = [trajectory for trajectory in rows if is_graded(trajectory) and trajectory.task.id in tasks]
    measures = {"reward": lambda t: t.reward, "success": lambda t: float(t.reward == 1.0), "turns": turns}
    return {
        name: {task: float(np.mean(values)) for task, values in _by_task(graded, measure).items()}
        for name, measure in measures.items()
    }


def _mean_over_seeds(seeds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {task: float(np.mean([values[task] for values in seeds])) for task in seeds[0]}


def _by_task(trajectories: Sequence[Trajectory], measure) -> dict[str, list[float]]:
    grouped: dict[str, list[float]] = {}
    for trajectory in trajectories:
        grouped.setdefault(trajectory.task.id, []).append(measure(trajectory))
    return grouped


def _percent(estimate: Mapping[str, float]) -> str:
    return f"{100 * estimate['mean']:.1f} %  (95 %: {100 * estimate['low']:.1f} to {100 * estimate['high']:.1f})"


def _difference(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    p = "p < 0.001" if estimate.p < 0.001 else f"p = {estimate.p:.3f}"
    return f"{100 * estimate.mean:+.1f} ({100 * estimate.low:+.1f} to {100 * estimate.high:+.1f}), {p}"


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 or column >= len(COLUMNS) else cell.rjust(width)
