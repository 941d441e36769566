"""Draw a figure of a study as PNG and SVG: lengths of messages, credit per turn, credit of a study, budget.

    python -m lab.plots.plot_study --kind budget --results table2.json --output_path budget.png
    python -m lab.plots.plot_study --kind credit --results credit.json --output_path credit.png

--results is what compare_runs.py wrote with --output_path (for credit: measure_mini_credit.py). Needs matplotlib.
"""

import json
from pathlib import Path
from typing import Literal

from lab.plots import drawings
from sweet_rl.evaluation.figures import save_figure
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError, first_line, read_by_library
from sweet_rl.runs.manifest import check_finished
from sweet_rl.runs.records import Trajectory, read_records


def main(
    kind: Literal["lengths", "credit", "credit_study", "budget"], results: str, output_path: str, title: str = ""
) -> None:
    """Draw one figure, written with .png and with .svg.

    Args:
        kind: Kind of figure: lengths, credit, credit_study or budget. lengths are those of the agent's messages, read
            from the runs' files; credit is the agreement with the oracle per turn, credit_study the same against the
            dialogues that critics were trained on; budget is success against CPU seconds and dialogues, from the
            manifests.
        results: JSON file of compare_runs.py; for credit and credit_study, of measure_mini_credit.py.
        output_path: Path of the figure; the ending is added.
        title: Title of the figure.
    """
    writer = "measure_mini_credit.py" if kind in ("credit", "credit_study") else "compare_runs.py"
    odd = f"{results}: no results in it that can be drawn as {kind}; {writer} writes them"
    with read_by_library(lambda error: UserError(f"{odd} ({first_line(error)}).")):
        found = json.loads(Path(results).read_text(encoding="utf-8"))
        if writer == "compare_runs.py" and not {"measure", "runs", "files"} <= found.keys():
            raise ValueError("it has no runs")
        figure = _draw(kind, found, title)
    for path in save_figure(figure, output_path):
        print(path)


def _draw(kind: str, found: dict, title: str):
    if kind == "credit":
        return drawings.credit(found, title)
    if kind == "credit_study":
        return drawings.credit_study(found, title)
    if kind == "budget":
        return drawings.budget(drawings.budget_points(found), title, found["measure"])
    files = found["files"].items()
    for path in (path for _, paths in files for path in paths):
        check_finished(path)
    runs = {name: [row for path in paths for row in read_records(path, Trajectory)] for name, paths in files}
    return drawings.lengths(runs, title)


if __name__ == "__main__":
    run(main)
