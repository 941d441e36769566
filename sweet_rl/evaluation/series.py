"""Runs that are points of a curve: their name is series@x, for example `SWEET critic@4`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sweet_rl.runs.errors import UserError

SERIES_NAME = re.compile(r"(.+)@(\d+(?:\.\d+)?)")


def series_of(comparison: Mapping) -> dict[str, list[tuple[float, dict]]]:
    """For each series its points (x, run), sorted by x. Raises UserError if no run is named series@x."""
    found: dict[str, list[tuple[float, dict]]] = {}
    for run in comparison["runs"]:
        if match := SERIES_NAME.fullmatch(run["name"]):
            found.setdefault(match[1], []).append((float(match[2]), run))
    if not found:
        raise UserError("no run is named series@x (e.g. 'SWEET critic@4'), so there is nothing to draw as a curve.")
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}
