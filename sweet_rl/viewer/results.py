"""The table and the figure of a comparison, for the top of a page."""

from __future__ import annotations

import io
import json
from pathlib import Path

from sweet_rl.evaluation import figures
from sweet_rl.evaluation.table import note, tables
from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.designs import data_url


def read_results(path: str) -> dict:
    """A comparison of compare_runs.py as {tables, note, figure}.

    `tables` are lists of rows of cells, the heading first; `figure` is None if matplotlib is not installed.

    Raises:
        UserError: The file is no such comparison.
    """
    try:
        comparison = json.loads(Path(path).read_text(encoding="utf-8"))
        paper = comparison.get("paper")
        shown = {"tables": [table.cells for table in tables(comparison, paper)], "note": note(comparison)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--results {path}: not a JSON file of compare_runs.py ({error!r}).") from error
    try:
        draw = figures.curves if figures.SERIES_NAME.fullmatch(comparison["runs"][0]["name"]) else figures.table
        file = io.BytesIO()
        draw(comparison).savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        return shown | {"figure": data_url(file.getvalue(), "image/svg+xml")}
    except UserError as error:  # matplotlib is in the extra `plots`
        print(f"no figure on the page: {error}")
        return shown | {"figure": None}
