"""Figures of results, as PNG and SVG: tables as bars, curves, lengths of messages, credit by turn, budget.

    python visualizers/plot_results.py --kind bars --results results.json --output_path table2.png
    python visualizers/plot_results.py --kind curves --results figure3a.json --paper figure3a --output_path figure3a.png

--results is what compare_runs.py wrote with --output_path (for credit: measure_mini_credit.py). Needs matplotlib.
"""

import json
from pathlib import Path
from typing import Literal

from sweet_rl.analysis.figures.style import save_figure
from sweet_rl.analysis.paper_results import paper_results
from sweet_rl.cli import run
from sweet_rl.errors import UserError

PAPER = Path(__file__).resolve().parents[1] / "configs" / "paper" / "results.yaml"


def main(
    kind: Literal["bars", "curves", "lengths", "credit", "budget"],
    results: str,
    output_path: str,
    paper: str | None = None,
    title: str | None = None,
    x_label: str = "",
) -> None:
    """Draw one figure; it is written with .png and with .svg.

    Args:
        kind: bars (a table of runs), curves (runs named series@x), lengths (of the agent's messages, read from the
            runs' files), credit (agreement with the oracle by turn), budget (success against cost, from the
            times.jsonl beside the runs' files)
        results: figures of compare_runs.py, JSON; for credit those of measure_mini_credit.py
        output_path: where; the ending is added
        paper: the paper's table or figure to show beside it: table2, figure3a, ...
        title: default: the paper's, if --paper is given
        x_label: of the curves' x axis
    """
    try:
        found = json.loads(Path(results).read_text(encoding="utf-8"))
        if kind != "credit" and not {"measure", "runs", "files"} <= found.keys():
            raise ValueError("it has no runs")
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{results}: no results in it ({error}). compare_runs.py writes them.") from error
    told = paper_results(PAPER, paper) if paper else {}
    heading = title if title is not None else told.get("title", "")
    for path in save_figure(_draw(kind, found, told, heading, x_label or told.get("x", "")), output_path):
        print(path)


def _draw(kind: str, found: dict, told: dict, title: str, x_label: str):
    if kind == "bars":
        from sweet_rl.analysis.figures.bars import bars

        return bars({**found, "paper": told.get("rows") or found.get("paper")}, title)
    if kind == "curves":
        from sweet_rl.analysis.figures.curves import curves

        return curves(found, title, x_label, told.get("points", ()))
    if kind == "credit":
        from sweet_rl.analysis.figures.credit import credit

        return credit(found, title)
    if kind == "budget":
        from sweet_rl.analysis.budget import budget_points
        from sweet_rl.analysis.figures.budget import budget

        return budget(budget_points(found), title, found["measure"])
    from sweet_rl.analysis.figures.lengths import lengths
    from sweet_rl.records import Trajectory, read_records

    files = found["files"].items()
    runs = {name: [row for path in paths for row in read_records(path, Trajectory)] for name, paths in files}
    return lengths(runs, title)


if __name__ == "__main__":
    run(main)
