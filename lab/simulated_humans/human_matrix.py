"""A matrix of agents by the simulated humans they were trained and evaluated with.

    python -m lab.simulated_humans.human_matrix --markdown_path matrix.md \
        --runs "SWEET-RL=a_on_a.jsonl+a_on_b.jsonl+b_on_a.jsonl+b_on_b.jsonl"

Each file is an output of evaluate_code.py or evaluate_html.py; files of one cell are its seeds. The human of the
evaluation is in the rows of a graded file. The human of the training is found through the manifests behind the agent:
its training set, the dialogues that it was made from, and their human.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweet_rl.evaluation.budget import behind_dialogues, human_of
from sweet_rl.evaluation.compare import compare, parse_runs
from sweet_rl.evaluation.graded_file import GradedFile, check_comparable, read_graded
from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.evaluation.table import Table
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.texts import write_texts

UNTRAINED = "none"


def main(
    runs: dict | str,
    output_path: str | None = None,
    markdown_path: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Print what agents reach with the human of their training and with others.

    Args:
        runs: Graded files as name=file[+file...] per run, separated by commas.
        output_path: File for the figures as JSON.
        markdown_path: File for the table in Markdown.
        seed: Random seed of the bootstrap.
        overwrite: Replace outputs that exist with other content.
    """
    paths = parse_runs(runs)
    check_paths([output_path, markdown_path], [path for files in paths.values() for path in files])
    graded = {name: [read_graded(path) for path in files] for name, files in paths.items()}
    matrix = measure_matrix(graded, seed)
    content = matrix.to_dict() | {"files": paths, "seed": seed}
    texts = {
        output_path: json.dumps(content, indent=2, ensure_ascii=False) + "\n",
        markdown_path: matrix.table().markdown() + "\n",
    }
    write_texts({path: text for path, text in texts.items() if path is not None}, overwrite)
    print(matrix.table().text())


@dataclass(frozen=True)
class HumanMatrix:
    """What agents reach with the human they were trained with, and with others.

    Attributes:
        measure: Name of the measure: success, similarity or reward.
        cells: Figures by (run, trained with, evaluated with), as `runs` of `compare`; seeds are averaged.
        tasks: Number of tasks with a graded dialogue in every file.
    """

    measure: str
    cells: Mapping[tuple[str, str, str], Mapping[str, Any]]
    tasks: int

    def to_dict(self) -> dict:
        return {
            "measure": self.measure,
            "tasks": self.tasks,
            "cells": [
                {
                    "run": run,
                    "trained_with": trained,
                    "evaluated_with": human,
                    "seeds": row["seeds"],
                    self.measure: row[self.measure],
                }
                for (run, trained, human), row in self.cells.items()
            ],
        }

    def table(self) -> Table:
        """One line per run and human of its training, one column per human of the evaluation."""
        humans = sorted({human for *_, human in self.cells})
        heading = ["run", "trained with", *(f"{self.measure} % with {human}" for human in humans)]
        lines = [
            [run, trained, *(self._figure(run, trained, human) for human in humans)]
            for run, trained in dict.fromkeys((run, trained) for run, trained, _ in self.cells)
        ]
        return Table([heading, *lines], len(heading) - 1)

    def _figure(self, *cell: str) -> str:
        if cell not in self.cells:
            return ""
        figure = self.cells[cell][self.measure]
        return f"{100 * figure['mean']:.1f} ({interval_text(figure['low'], figure['high'])})"


def measure_matrix(runs: Mapping[str, Sequence[GradedFile]], seed: int = 0) -> HumanMatrix:
    """Sort the files of each run by the humans of training and evaluation.

    Args:
        runs: Graded files by the name of the run; files of one cell are its seeds.
        seed: Random seed of the bootstrap.

    Raises:
        UserError: Files on different tasks or by different graders, or one that was played with several humans.
    """
    check_comparable(runs, mix_humans=True)
    cells: dict[tuple[str, str, str], list[GradedFile]] = {}
    for name, file in ((name, file) for name, files in runs.items() for file in files):
        if len(file.humans) != 1:
            found = ", ".join(file.humans) or "no human replied in it"
            raise UserError(f"{file.path}: a cell of the matrix needs dialogues with one human; found: {found}.")
        cells.setdefault((name, trained_with(file.path), file.humans[0]), []).append(file)
    named = {" / ".join(cell): files for cell, files in cells.items()}
    comparison = compare(named, seed=seed, mix_humans=True)
    rows = dict(zip(cells, comparison["runs"], strict=True))
    return HumanMatrix(comparison["measure"], rows, comparison["tasks"])


def trained_with(graded_path: str) -> str:
    """The humans of the dialogues that the agent of a graded file was trained on; "none" without such dialogues."""
    humans = {human for path in behind_dialogues(graded_path) if (human := human_of(path)) is not None}
    return ", ".join(sorted(humans)) or UNTRAINED


if __name__ == "__main__":
    run(main)
