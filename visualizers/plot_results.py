"""Draw the figures of the paper as PNG and SVG: tables of runs, and curves of runs named series@x.

    python visualizers/plot_results.py --kind table --results results.json --output_path table2.png
    python visualizers/plot_results.py --kind curves --results figure3a.json --paper figure3a --output_path figure3a.png

--results is what compare_runs.py wrote with --output_path. Needs matplotlib.
"""

import json
from pathlib import Path
from typing import Literal

from sweet_rl.evaluation import figures
from sweet_rl.evaluation.paper import paper_results
from sweet_rl.runs.cli import packaged_config, run
from sweet_rl.runs.errors import UserError, first_line, read_by_library

PAPER = packaged_config("paper/results.yaml")


def main(
    kind: Literal["table", "curves"],
    results: str,
    output_path: str,
    paper: str | None = None,
    title: str | None = None,
    x_label: str = "",
) -> None:
    """Draw one figure, written with .png and with .svg.

    Args:
        kind: Kind of figure: table, or curves of runs named series@x.
        results: JSON file of compare_runs.py.
        output_path: Path of the figure; the ending is added.
        paper: Table or figure of the paper that is also shown, for example table2 or figure3a.
        title: Title of the figure; by default the paper's, if --paper is given.
        x_label: Label of the curves' x axis.
    """
    known = paper_results(PAPER, paper) if paper else {}
    heading = title if title is not None else known.get("title", "")
    odd = f"{results}: no results in it that can be drawn as {kind}; compare_runs.py writes them"
    with read_by_library(lambda error: UserError(f"{odd} ({first_line(error)}).")):
        found = json.loads(Path(results).read_text(encoding="utf-8"))
        if not {"measure", "runs", "files"} <= found.keys():
            raise ValueError("it has no runs")
        if kind == "table":
            figure = figures.table({**found, "paper": known.get("rows") or found.get("paper")}, heading)
        else:
            figure = figures.curves(found, heading, x_label or known.get("x", ""), known.get("points", ()))
    for path in figures.save_figure(figure, output_path):
        print(path)


if __name__ == "__main__":
    run(main)
