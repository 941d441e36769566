"""Draw figures of results as PNG and SVG: tables, curves, lengths of messages, credit per turn, budget.

    python visualizers/plot_results.py --kind table --results results.json --output_path table2.png
    python visualizers/plot_results.py --kind curves --results figure3a.json --paper figure3a --output_path figure3a.png

--results is what compare_runs.py wrote with --output_path (for credit: lab.critics.measure_mini_credit). It needs
matplotlib.
"""

import json
from pathlib import Path
from typing import Literal

from sweet_rl.cli import run
from sweet_rl.cli.configs import packaged_config
from sweet_rl.errors import UserError, first_line, read_by_library
from sweet_rl.evaluation import figures
from sweet_rl.evaluation.budget import budget_points
from sweet_rl.evaluation.comparison_table import paper_results
from sweet_rl.records import Trajectory, read_records
from sweet_rl.runs.manifest import check_finished

PAPER = packaged_config("paper/results.yaml")


def main(
    kind: Literal["table", "curves", "lengths", "credit", "credit_study", "budget"],
    results: str,
    output_path: str,
    paper: str | None = None,
    title: str | None = None,
    x_label: str = "",
) -> None:
    """Draw one figure, written with .png and with .svg.

    Args:
        kind: Kind of figure: table, curves, lengths, credit, credit_study or budget. curves are of runs named series@x;
            lengths are those of the agent's messages, read from the runs' files; credit is the agreement with the
            oracle per turn, credit_study the same against the dialogues that critics were trained on; budget is success
            against CPU seconds and dialogues, from the manifests.
        results: JSON file of compare_runs.py; for credit and credit_study, of lab.critics.measure_mini_credit.
        output_path: Path of the figure; the ending is added.
        paper: Table or figure of the paper that is also shown, for example table2 or figure3a.
        title: Title of the figure; by default the paper's, if --paper is given.
        x_label: Label of the curves' x axis.
    """
    known = paper_results(PAPER, paper) if paper else {}
    heading = title if title is not None else known.get("title", "")
    writer = "lab.critics.measure_mini_credit" if kind in ("credit", "credit_study") else "compare_runs.py"
    odd = f"{results}: no results in it that can be drawn as {kind}; {writer} writes them"
    with read_by_library(lambda error: UserError(f"{odd} ({first_line(error)}).")):
        found = json.loads(Path(results).read_text(encoding="utf-8"))
        if writer == "compare_runs.py" and not {"measure", "runs", "files"} <= found.keys():
            raise ValueError("it has no runs")
        figure = _draw(kind, found, known, heading, x_label or known.get("x", ""))
    for path in figures.save_figure(figure, output_path):
        print(path)


def _draw(kind: str, found: dict, paper: dict, title: str, x_label: str):
    if kind == "table":
        return figures.table({**found, "paper": paper.get("rows") or found.get("paper")}, title)
    if kind == "curves":
        return figures.curves(found, title, x_label, paper.get("points", ()))
    if kind == "credit":
        return figures.credit(found, title)
    if kind == "credit_study":
        return figures.credit_study(found, title)
    if kind == "budget":
        return figures.budget(budget_points(found), title, found["measure"])
    files = found["files"].items()
    for path in (path for _, paths in files for path in paths):
        check_finished(path)
    runs = {name: [row for path in paths for row in read_records(path, Trajectory)] for name, paths in files}
    return figures.lengths(runs, title)


if __name__ == "__main__":
    run(main)
