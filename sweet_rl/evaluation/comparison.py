"""Comparison of graded runs on the same tasks: figures per run, and paired differences with p-values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from sweet_rl.evaluation.graded_file import MEASURES, GradedFile, check_comparable
from sweet_rl.evaluation.statistics import (
    DifferenceEstimate,
    Estimate,
    bootstrap_interval,
    holm,
    paired_difference,
    task_means,
    win_share,
)
from sweet_rl.evaluation.two_level import two_level_interval, two_level_p
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory

Pair = tuple[str, str]


@dataclass(frozen=True)
class Difference:
    """Run `better` minus run `worse`, paired by task and, if both have the same number of seeds, by seed.

    Attributes:
        better: Name of the first run; nothing requires it to be the better one.
        worse: Name of the second run.
        seeds: Number of seeds that the interval and the test are over; 1 if they are over tasks only.
        difference: Difference in the main measure, with its p-value.
        wins: Share of pairs of dialogues of the same task in which `better` earns more; ties count half.
        p_tasks: p-value of the sign-flip test over tasks, which does not cover another training.
        p_holm: p-value `difference.p`, Holm-corrected for all comparisons of its family.
    """

    better: str
    worse: str
    seeds: int
    difference: DifferenceEstimate
    wins: Estimate
    p_tasks: float
    p_holm: float

    @property
    def significant(self) -> str:
        """yes, "the reverse" or no at 5 %; "too few seeds": clear on these tasks, but perhaps one of the seeds."""
        if self.p_holm < 0.05:
            return "yes" if self.difference.mean > 0 else "the reverse"
        return "too few seeds" if self.seeds > 1 and self.p_tasks < 0.05 else "no"

    def to_dict(self) -> dict:
        estimates = {"difference": self.difference.to_dict(), "wins": self.wins.to_dict()}
        p_values = {"p_tasks": self.p_tasks, "p_holm": self.p_holm, "significant": self.significant}
        return {"better": self.better, "worse": self.worse, "seeds": self.seeds, **estimates, **p_values}


@dataclass(frozen=True)
class Row:
    """The figures of one run.

    Attributes:
        name: Name of the run.
        seeds: Number of files.
        main: Success for code, similarity for pages, reward for other domains.
        tests_passed: Share of tests passed, for code only.
        by_seed: Main measure of each seed.
        tests_by_seed: Share of tests passed of each seed, for code only.
        spread: Standard deviation of `by_seed`; None for one seed.
        dialogues: Number of dialogues.
        failed: Number of dialogues that failed, which are in no figure.
        turns: Mean number of the agent's messages per dialogue.
        tokens: Mean number of the agent's tokens per dialogue; None if a seed's file does not hold them.
        humans: The simulated humans who replied, "name (hash)".
        protocols: The protocols of its dialogues.
    """

    name: str
    seeds: int
    main: Estimate
    tests_passed: Estimate | None
    by_seed: list[float]
    tests_by_seed: list[float] | None
    spread: float | None
    dialogues: int
    failed: int
    turns: float
    tokens: float | None
    humans: list[str]
    protocols: list[str]


@dataclass(frozen=True)
class Comparison:
    """Runs on the same tasks.

    Attributes:
        measure: Name of the main measure: success, similarity or reward.
        rows: Figures of each run.
        baselines: Names of the runs that every other run is compared with.
        against: Difference of (run, baseline).
        steps: Differences of neighbours in the chains.
        tasks: Number of tasks with a graded dialogue in every run.
        left_out: Ids of the other tasks.
        grader: Grader of all runs (`check_comparable`).
    """

    measure: str
    rows: list[Row]
    baselines: list[str]
    against: dict[Pair, Difference]
    steps: list[Difference]
    tasks: int
    left_out: list[str]
    grader: dict

    def to_dict(self) -> dict:
        return {
            "measure": self.measure,
            "tasks": self.tasks,
            "left_out_tasks": self.left_out,
            "grader": self.grader,
            "baselines": self.baselines,
            "runs": [self._row(row) for row in self.rows],
            "steps": [step.to_dict() for step in self.steps],
        }

    def _row(self, row: Row) -> dict:
        against = {b: self.against[row.name, b] for b in self.baselines if b != row.name}
        figures = {
            "name": row.name,
            "seeds": row.seeds,
            "humans": row.humans,
            "protocols": row.protocols,
            self.measure: row.main.to_dict(),
            f"{self.measure}_by_seed": row.by_seed,
            f"{self.measure}_spread": row.spread,
            "dialogues": row.dialogues,
            "failed": row.failed,
            "turns": row.turns,
            "tokens": row.tokens,
            "difference_to": {
                b: d.difference.to_dict() | {"p_holm": d.p_holm, "seeds": d.seeds} for b, d in against.items()
            },
            "wins_against": {b: d.wins.to_dict() for b, d in against.items()},
        }
        if row.tests_passed is None:
            return figures
        return figures | {"tests_passed": row.tests_passed.to_dict(), "tests_passed_by_seed": row.tests_by_seed}


def compare(
    runs: Mapping[str, Sequence[GradedFile]],
    baselines: Sequence[str] = (),
    chains: Sequence[Sequence[str]] = (),
    seed: int = 0,
    mix_humans: bool = False,
) -> Comparison:
    """Compare graded runs on the same tasks.

    Runs of several seeds have intervals and tests over seeds and tasks together (`two_level`); the seeds of two runs
    are paired in their order. With one seed, or with different numbers of seeds, a difference is over tasks only.
    p-values are Holm-corrected in two families: all comparisons with baselines, and all steps of the chains.

    Args:
        runs: File of each seed, by name of the run.
        baselines: Names of runs that every other run is compared with.
        chains: Lists of names; each run is compared with the next of its list.
        seed: Seed of the bootstrap and of the tests.
        mix_humans: Whether runs with different simulated humans are compared.

    Raises:
        UserError: runs that are not comparable (tasks, graders, humans), a name that is none of them, nothing graded.
    """
    if not runs or not all(runs.values()):
        raise UserError("Every run needs a name and at least one file of graded trajectories.")
    for name in (*baselines, *(name for chain in chains for name in chain)):
        if name not in runs:
            raise UserError(f"{name!r} is none of the runs: {', '.join(runs)}.")
    grader = check_comparable(runs, mix_humans)
    measure = MEASURES.get(grader.get("kind", ""), "success")
    tasks = {t.task.id for files in runs.values() for file in files for t in file.trajectories}
    counted = set(tasks)
    for file in (file for files in runs.values() for file in files):
        counted &= {t.task.id for t in file.trajectories if t.is_graded}
    if not counted:
        raise UserError("No task has a graded dialogue in every run: were the files made by evaluate_code.py?")
    values = {name: [_values(file.trajectories, counted, measure) for file in files] for name, files in runs.items()}

    main = {name: _matrix(seeds, "main") for name, seeds in values.items()}

    def family(pairs: Sequence[Pair]) -> list[Difference]:
        found = [
            _difference(one, other, main[one], main[other], _wins(values[one], values[other]), seed)
            for one, other in pairs
        ]
        adjusted = holm([difference.p_holm for difference in found])
        return [replace(difference, p_holm=p) for difference, p in zip(found, adjusted, strict=True)]

    against = family([(name, baseline) for baseline in baselines for name in runs if name != baseline])
    steps = family([pair for chain in chains for pair in zip(chain, chain[1:], strict=False)])
    rows = [_row(name, values[name], measure, seed, files) for name, files in runs.items()]
    against_by_pair = {(d.better, d.worse): d for d in against}
    return Comparison(
        measure, rows, list(baselines), against_by_pair, steps, len(counted), sorted(tasks - counted), grader
    )


def _row(name: str, seeds: list[dict], measure: str, seed: int, files: Sequence[GradedFile]) -> Row:
    main, tests = _matrix(seeds, "main"), _matrix(seeds, "reward") if measure == "success" else None
    tokens = [task_means(values["tokens"]) for values in seeds]
    dialogues = [trajectory for file in files for trajectory in file.trajectories]
    return Row(
        name=name,
        seeds=len(seeds),
        main=_interval(main, seed),
        tests_passed=None if tests is None else _interval(tests, seed),
        by_seed=main.mean(1).tolist(),
        tests_by_seed=None if tests is None else tests.mean(1).tolist(),
        spread=float(np.std(main.mean(1), ddof=1)) if len(seeds) > 1 else None,
        dialogues=len(dialogues),
        failed=sum(trajectory.ending == "failed" for trajectory in dialogues),
        turns=float(_matrix(seeds, "turns").mean()),
        tokens=float(np.mean([np.mean(list(t.values())) for t in tokens])) if all(tokens) else None,
        humans=sorted({human for file in files for human in file.humans}),
        protocols=sorted({protocol for file in files for protocol in file.protocols}),
    )


def _difference(better: str, worse: str, one: np.ndarray, other: np.ndarray, wins: np.ndarray, seed: int) -> Difference:
    over_tasks = paired_difference(_by_number(one.mean(0)), _by_number(other.mean(0)), seed=seed)
    if len(one) != len(other) or len(one) == 1 or one.shape[1] == 1:
        p = over_tasks.p
        return Difference(better, worse, 1, over_tasks, _interval(wins.mean(0, keepdims=True), seed), p, p)
    estimate = DifferenceEstimate(**asdict(_interval(one - other, seed, lowest=-1.0)), p=two_level_p(one - other))
    return Difference(better, worse, len(one), estimate, _interval(wins, seed), over_tasks.p, estimate.p)


def _interval(values: np.ndarray, seed: int, lowest: float = 0.0) -> Estimate:
    """The interval of values [S, T] from `lowest` to 1: over tasks if there is one seed, else over seeds and tasks."""
    if len(values) > 1:
        return two_level_interval(values, seed=seed, lowest=lowest)
    return bootstrap_interval(_by_number(values[0]), seed=seed, lowest=lowest)


def _by_number(values: np.ndarray) -> dict[str, float]:
    """The values [T] by the number of their task, with leading zeros: sorted by name they stay in order."""
    return {f"{number:09}": value for number, value in enumerate(values.tolist())}


def _matrix(seeds: Sequence[Mapping], name: str) -> np.ndarray:
    """[S, T]: for each seed and task the mean over its dialogues. Tasks are in sorted order."""
    means = [task_means(values[name]) for values in seeds]
    return np.array([[mean[task] for task in sorted(mean)] for mean in means], dtype=np.float64)


def _wins(one: Sequence[Mapping], other: Sequence[Mapping]) -> np.ndarray:
    """[S, T]: the share of wins of each seed on each task; [1, T] over all dialogues if the seeds are not paired."""
    if len(one) != len(other):
        one, other = [_joined(one)], [_joined(other)]
    pairs = [(a["reward"], b["reward"]) for a, b in zip(one, other, strict=True)]
    return np.array([[win_share(a[task], b[task]) for task in sorted(a)] for a, b in pairs])


def _joined(seeds: Sequence[Mapping]) -> dict[str, dict[str, list[float]]]:
    return {"reward": {task: sum((seed["reward"][task] for seed in seeds), []) for task in seeds[0]["reward"]}}


def _values(trajectories: Sequence[Trajectory], tasks: set[str], measure: str) -> dict[str, dict[str, list[float]]]:
    """For each measure the values of each task's dialogues; `tokens` only of dialogues that hold their usage."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ("reward", "main", "turns", "tokens")}
    for trajectory in trajectories:
        task = trajectory.task.id
        if task not in tasks or not trajectory.is_graded:
            continue
        main = float(trajectory.reward == 1.0) if measure == "success" else trajectory.reward
        tokens = (trajectory.usage or {}).get("agent", {}).get("completion_tokens")
        values = {"reward": trajectory.reward, "main": main, "turns": trajectory.turns, "tokens": tokens}
        for name, value in values.items():
            if value is not None:
                found[name].setdefault(task, []).append(float(value))
    return found
