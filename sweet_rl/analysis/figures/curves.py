"""Runs named `series@x` as curves: best of N at every turn (Figure 3a), data scaling (Figure 3b)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sweet_rl.analysis.figures.style import line_style, new_figure
from sweet_rl.errors import UserError

NAME = re.compile(r"(.+)@(\d+(?:\.\d+)?)")


def series_of(comparison: Mapping) -> dict[str, list[tuple[float, dict]]]:
    """(x, estimate of the main measure) by series, in the order of x. Raises UserError if no run has such a name."""
    found: dict[str, list[tuple[float, dict]]] = {}
    for run in comparison["runs"]:
        if match := NAME.fullmatch(run["name"]):
            found.setdefault(match[1], []).append((float(match[2]), run[comparison["measure"]]))
    if not found:
        raise UserError("no run is named series@x (e.g. 'SWEET critic@4'), so there is nothing to draw as a curve.")
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def curves(comparison: Mapping, title: str = "", x_label: str = "", paper: Sequence[Mapping] = ()):
    """comparison: `Comparison.to_dict()`; paper: points {series, success, x?}, in percent. A point without x is drawn
    as a level. Returns the figure."""
    series = series_of(comparison)
    panels = 2 if any("x" in point for point in paper) else 1
    figure, axes = new_figure(panels, width=5.6 * panels**0.7, height=3.6)
    xs = sorted({x for points in series.values() for x, _ in points})
    doubling = len(xs) > 2 and min(xs) > 0 and all(b == 2 * a for a, b in zip(xs, xs[1:], strict=False))
    for number, (name, points) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * 0.012
        at = [x * (1 + 2 * shift) if doubling else x + shift * (xs[-1] - xs[0]) for x, _ in points]
        means = [100 * value["mean"] for _, value in points]
        errors = [[100 * (v["mean"] - v["low"]) for _, v in points], [100 * (v["high"] - v["mean"]) for _, v in points]]
        axes[0].errorbar(at, means, yerr=errors, label=name, **line_style(number))
    if doubling:
        axes[0].set_xscale("log", base=2)
        axes[0].minorticks_off()
    axes[0].set_xticks(xs, [f"{x:g}" for x in xs])
    for point in paper:
        if "x" not in point:
            axes[0].axhline(point["success"], color="black", linewidth=0.8, linestyle=(0, (1, 3)))
            axes[0].annotate(f"the paper: {point['series']}, {point.get('note', '')} {point['success']} %",
                             (0.99, point["success"]), xycoords=("axes fraction", "data"), fontsize=7.5, ha="right",
                             xytext=(0, 2), textcoords="offset points", zorder=9,
                             bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1})  # fmt: skip
    if panels == 2:
        names = list(dict.fromkeys(point["series"] for point in paper))
        order = [*series, *(name for name in names if name not in series)]
        for name in names:
            known = sorted((point["x"], point["success"]) for point in paper if point["series"] == name)
            style = {key: value for key, value in line_style(order.index(name)).items() if key != "capsize"}
            axes[1].plot(*zip(*known, strict=True), label=name, **style)
        axes[1].set_title("the paper (its own models and tasks)", fontsize=9)
        axes[1].set_ylim(bottom=0)
        axes[1].margins(x=0.06)
        axes[1].set_xlabel(x_label)
    axes[0].set_ylabel(f"{comparison['measure']} %")
    axes[0].set_xlabel(x_label)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(title, fontsize=10)
    return figure
