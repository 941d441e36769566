"""A table of several graded frontend runs on the same tasks: similarity, win rates, paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweet_rl.errors import UserError
from sweet_rl.grading.evaluate_pages import encoder_of
from sweet_rl.grading.page_report import different_encoders, rewards_by_task, win_rate
from sweet_rl.grading.report import is_graded, turns
from sweet_rl.grading.statistics import Estimate, bootstrap_interval, paired_difference
from sweet_rl.records import Trajectory

COLUMNS = ("run", "seeds", "cosine %", "95 % interval", "turns")


@dataclass(frozen=True)
class PageRow:
    """One line of the comparison. `win_rates` and `differences` (of the similarity) are by baseline name."""

    name: str
    seeds: int
    similarity: Estimate
    turns: float
    win_rates: dict[str, Estimate]
    differences: dict[str, Estimate]
    similarity_by_seed: list[float]


@dataclass(frozen=True)
class PageComparison:
    """Several frontend runs on the same tasks. `left_out`: tasks with no graded dialogue in one of the runs."""

    rows: list[PageRow]
    baselines: list[str]
    encoder: str
    tasks: int
    left_out: list[str]

    def to_dict(self) -> dict:
        return {
            "tasks": self.tasks,
            "left_out_tasks": self.left_out,
            "baselines": self.baselines,
            "encoder": self.encoder,
            "runs": [
                {
                    "name": row.name,
                    "seeds": row.seeds,
                    "cosine_similarity": row.similarity.to_dict(),
                    "cosine_similarity_by_seed": row.similarity_by_seed,
                    "turns": row.turns,
                    "win_rate_against": {name: rate.to_dict() for name, rate in row.win_rates.items()},
                    "difference_to": {name: d.to_dict() for name, d in row.differences.items()},
                }
                for row in self.rows
            ],
        }

    def cells(self) -> list[list[str]]:
        """The table as text, its header first."""
        header = [*COLUMNS]
        for name in self.baselines:
            header += [f"win rate against {name} %", f"cosine - {name}"]
        table = [header]
        for row in self.rows:
            cells = [
                row.name, str(row.seeds), f"{100 * row.similarity.mean:.1f}",
                f"{100 * row.similarity.low:.1f} to {100 * row.similarity.high:.1f}", f"{row.turns:.2f}",
            ]  # fmt: skip
            for name in self.baselines:
                cells += [_win(row.win_rates.get(name)), _difference(row.differences.get(name))]
            table.append(cells)
        return table

    def markdown(self) -> str:
        header, *rows = self.cells()
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{self._note()}\n"

    def text(self) -> str:
        table = self.cells()
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([*(line.rstrip() for line in lines), "", self._note()])

    def _note(self) -> str:
        note = (
            f"{self.tasks} tasks; image encoder {self.encoder}; intervals: 95 %, bootstrap over tasks; "
            "p: sign-flip test over tasks; a tie is half a win."
        )
        return note + (f" Left out for want of a graded dialogue: {len(self.left_out)}." if self.left_out else "")


def compare_pages(
    runs: Mapping[str, Sequence[Sequence[Trajectory]]], baselines: Sequence[str] = (), seed: int = 0
) -> PageComparison:
    """Compare graded frontend runs on the same tasks; the rest as `report.compare`.

    Raises UserError: different tasks, different image encoders, an unknown baseline, nothing graded.
    """
    unknown = [name for name in baselines if name not in runs]
    if unknown:
        raise UserError(f"The baseline {unknown[0]!r} is none of the runs: {', '.join(runs)}.")
    encoders = {
        f"{name} (file {number})": encoder_of(rows, f"the run {name!r}, file {number}")
        for name, seeds in runs.items()
        for number, rows in enumerate(seeds, 1)
    }
    if len(set(encoders.values())) > 1:
        raise UserError(different_encoders(encoders))
    counted = tasks = {t.task.id for t in next(iter(runs.values()))[0]}
    for name, seeds in runs.items():
        for number, rows in enumerate(seeds, 1):
            if odd := sorted(tasks ^ {t.task.id for t in rows}):
                raise UserError(
                    f"The runs are on different tasks: {len(odd)} are not in both {next(iter(runs))!r} and {name!r} "
                    f"(file {number}), the first is {odd[0]}. Evaluate all on the same tasks file and --num_tasks."
                )
            counted = counted & {t.task.id for t in rows if is_graded(t)}
    if not counted:
        raise UserError("No task has a graded dialogue in every run: were the files made by evaluate_html.py?")
    kept = {
        name: [[t for t in rows if is_graded(t) and t.task.id in counted] for rows in seeds]
        for name, seeds in runs.items()
    }
    pooled = {name: [t for rows in seeds for t in rows] for name, seeds in kept.items()}
    means = {name: _mean_over_seeds(seeds) for name, seeds in kept.items()}
    rows = [
        PageRow(
            name=name,
            seeds=len(seeds),
            similarity=bootstrap_interval(means[name], seed=seed),
            turns=float(np.mean([turns(t) for t in pooled[name]])),
            win_rates={b: win_rate(pooled[name], pooled[b], (name, b), seed) for b in baselines if b != name},
            differences={b: paired_difference(means[name], means[b], seed=seed) for b in baselines if b != name},
            similarity_by_seed=[
                float(np.mean([np.mean(values) for values in rewards_by_task(rows).values()])) for rows in seeds
            ],
        )
        for name, seeds in kept.items()
    ]
    return PageComparison(rows, list(baselines), next(iter(encoders.values())), len(counted), sorted(tasks - counted))


def _mean_over_seeds(seeds: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
    by_seed = [{task: float(np.mean(v)) for task, v in rewards_by_task(rows).items()} for rows in seeds]
    return {task: float(np.mean([values[task] for values in by_seed])) for task in by_seed[0]}


def _win(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{100 * estimate.mean:.1f} ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"


def _difference(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    p = "p < 0.001" if estimate.p < 0.001 else f"p = {estimate.p:.3f}"
    return f"{100 * estimate.mean:+.1f} ({100 * estimate.low:+.1f} to {100 * estimate.high:+.1f}), {p}"
