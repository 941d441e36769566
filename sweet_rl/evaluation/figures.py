"""The figures of the paper, drawn with matplotlib, and one function that saves them as PNG and SVG.

Every point is a mean with its interval, and behind it a small circle for each seed. The method of the paper has the one
colour; everything else is grey and told apart by marker and line, so that a print in black and white can be read.
Every drawing function returns the figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from sweet_rl.evaluation.paper import paper_lines
from sweet_rl.runs.errors import UserError

SERIES_NAME = re.compile(r"(.+)@(\d+(?:\.\d+)?)")
ACCENT = "#0a58a8"  # of the method: names that begin with SWEET
PAPER = "#9a9a9a"  # of the paper's own figures
MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">")
LINES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (8, 2)), (0, (3, 1, 1, 1)))
GREYS = ("#303030", "#5a5a5a", "#7a7a7a", "#444444", "#6a6a6a", "#8c8c8c")
SETTINGS: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": "#606060",
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 150,
    "svg.hashsalt": "sweet_rl",
    "svg.fonttype": "path",
}
PANELS = {
    "success": (("tests_passed", "tests", "tests passed %"), ("success", "success", "success %")),
    "similarity": (("similarity", "cosine", "similarity %"),),
    "reward": (("reward", "reward", "reward %"),),
}


def table(comparison: Mapping, title: str = ""):
    """A table of runs: for each the mean with its interval and its seeds, and the paper's figure as a grey mark.

    Args:
        comparison: What `compare` returns, with the paper's rows under `paper` (or None).
        title: Title of the figure.
    """
    runs, paper = comparison["runs"], comparison.get("paper") or {}
    panels = PANELS[comparison["measure"]]
    figure, axes = new_figure(len(panels), width=2.2 + 2.8 * len(panels), height=1.0 + 0.36 * len(runs))
    places = list(range(len(runs)))[::-1]
    for axis, (key, paper_key, heading) in zip(axes, panels, strict=True):
        for place, run in zip(places, runs, strict=True):
            mean, errors = percent(run[key])
            color = _color(run["name"])
            seeds = [100 * value for value in run.get(f"{key}_by_seed") or []]
            _plot_seeds(axis, seeds, [place] * len(seeds), color)
            axis.errorbar(mean, place, xerr=errors, fmt="o", color=color, markersize=6, linewidth=1.6, capsize=3)
            axis.text(mean, place + 0.17, f"{mean:.1f}", ha="center", fontsize=7.5, color=color)
        marks = [
            (paper[run["name"]][paper_key], place)
            for place, run in zip(places, runs, strict=True)
            if paper_key in paper.get(run["name"], {})
        ]
        if marks:
            label = "\n".join(paper_lines(comparison))
            axis.plot(*zip(*marks, strict=True), "|", color=PAPER, markersize=13, markeredgewidth=2, label=label)
        axis.set_xlabel(heading)
        if key == "similarity":  # the untrained agent's pages are alike already: from 0, nothing could be told apart
            axis.margins(x=0.1)
        else:
            axis.set_xlim(-3, 103)
        axis.set_ylim(-0.6, len(runs) - 0.4)
        axis.grid(axis="y", visible=False)
        axis.set_yticks(places, [run["name"] for run in runs] if axis is axes[0] else [""] * len(runs))
        axis.tick_params(axis="y", length=0)
    return finished(figure, axes[0], title, columns=1)


def curves(comparison: Mapping, title: str = "", x_label: str = "", paper: Sequence[Mapping] = ()):
    """Runs named `series@x` as curves: best of N per turn (the paper, Figure 3a), data scaling (Figure 3b).

    Args:
        comparison: What `compare` returns.
        title: Title of the figure.
        x_label: Label of the x axis.
        paper: The paper's points {series, success, x?}, success in percent. A point without x is drawn as a level;
            points with x get a panel of their own.

    Raises:
        UserError: no run is named series@x.
    """
    series, measure = series_of(comparison), comparison["measure"]
    panels = 2 if any("x" in point for point in paper) else 1
    figure, axes = new_figure(panels, width=5.6 * panels**0.7, height=3.6)
    xs = sorted({x for points in series.values() for x, _ in points})
    doubling = len(xs) > 2 and min(xs) > 0 and all(b == 2 * a for a, b in zip(xs, xs[1:], strict=False))
    styles = line_styles(series)
    for number, (name, points) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * 0.012  # keeps the error bars of series at the same x apart
        at = [x * (1 + 2 * shift) if doubling else x + shift * (xs[-1] - xs[0]) for x, _ in points]
        for x, (_, run) in zip(at, points, strict=True):
            seeds = [100 * value for value in run.get(f"{measure}_by_seed") or []]
            _plot_seeds(axes[0], [x] * len(seeds), seeds, styles[name]["color"])
        means, errors = zip(*(percent(run[measure]) for _, run in points), strict=True)
        axes[0].errorbar(at, means, yerr=np.hstack(errors), label=name, capsize=2.5, **styles[name])
    if doubling:
        axes[0].set_xscale("log", base=2)
        axes[0].minorticks_off()
    axes[0].set_xticks(xs, [f"{x:g}" for x in xs])
    for point in paper:
        if "x" not in point:
            axes[0].axhline(point["success"], color=PAPER, linewidth=1.2)
            text = f"the paper: {point['series']}, {point.get('note', '')} {point['success']} %"
            axes[0].text(xs[-1], point["success"], text, ha="right", va="bottom", fontsize=7.5, color="#606060")
    if panels == 2:
        axes[0].set_ylim(bottom=min(0, axes[0].get_ylim()[0]))  # as the paper's panel
        names = list(dict.fromkeys(point["series"] for point in paper))
        styles = line_styles([*series, *names])
        for name in names:
            known = sorted((point["x"], point["success"]) for point in paper if point["series"] == name)
            axes[1].plot(*zip(*known, strict=True), label=name, **styles[name])
        axes[1].set_title("the paper", fontsize=9)
        axes[1].set_ylim(bottom=0)
        axes[1].margins(x=0.06)
        axes[1].set_xlabel(x_label)
    axes[0].set_ylabel(f"{measure} %")
    axes[0].set_xlabel(x_label)
    if paper:
        lines = [fill(line, 75) for line in paper_lines(comparison)]
        axes[0].set_xlabel("\n".join([x_label, *lines]), fontsize=7.5)
    return finished(figure, axes[0], title)


def series_of(comparison: Mapping) -> dict[str, list[tuple[float, dict]]]:
    """The points (x, run) of each series of runs named series@x, sorted by x, for example `SWEET critic@4`.

    Raises:
        UserError: No run is named series@x.
    """
    found: dict[str, list[tuple[float, dict]]] = {}
    for run in comparison["runs"]:
        if match := SERIES_NAME.fullmatch(run["name"]):
            found.setdefault(match[1], []).append((float(match[2]), run))
    if not found:
        raise UserError("no run is named series@x (e.g. 'SWEET critic@4'), so there is nothing to draw as a curve.")
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def save_figure(figure, path: str | Path) -> list[Path]:
    """Write the figure as `path` with .png and with .svg; return both paths. The same figure gives the same bytes."""
    stem = Path(str(path).removesuffix(".png").removesuffix(".svg"))
    stem.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    paths = {kind: stem.with_name(f"{stem.name}.{kind}") for kind in metadata}
    for kind, path in paths.items():
        figure.savefig(path, metadata=metadata[kind])
    return list(paths.values())


def new_figure(panels: int, width: float, height: float):
    """(figure, list of axes side by side), sizes in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(SETTINGS)
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def finished(figure, axis, title: str, columns: int = 3):
    """The figure with its title and, if the axis has labels, a legend of them below."""
    if axis.get_legend_handles_labels()[0]:
        figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    figure.suptitle(title, fontsize=10)
    return figure


def percent(estimate: Mapping[str, float]) -> tuple[float, list[list[float]]]:
    """The mean in percent and its distances to both ends of the interval, as matplotlib takes error bars: [2, 1]."""
    mean, low, high = (100 * estimate[name] for name in ("mean", "low", "high"))
    return mean, [[mean - low], [high - mean]]


def _color(name: str, number: int = 0) -> str:
    return ACCENT if name.startswith("SWEET") else GREYS[number % len(GREYS)]


def line_styles(names: Iterable[str]) -> dict[str, dict]:
    """For each name its colour, line and marker. All of the method's names have its colour and a filled marker."""
    styles: dict[str, dict] = {}
    methods = others = 0
    for name in dict.fromkeys(names):
        method = name.startswith("SWEET")
        number = methods if method else others
        color = _color(name, number)
        styles[name] = {
            "color": color,
            "linestyle": ("-", *LINES)[number % 8] if method else LINES[number % len(LINES)],
            "marker": ("o", *MARKERS)[number % 9] if method else MARKERS[number % len(MARKERS)],
            "markersize": 5,
            "linewidth": 1.8 if method else 1.2,
            "markerfacecolor": color if method else "white",
        }
        methods, others = methods + method, others + (not method)
    return styles


def _plot_seeds(axis, xs: Sequence[float], ys: Sequence[float], color: str) -> None:
    """A small circle for each seed, if there are several."""
    if len(xs) > 1:
        axis.plot(xs, ys, "o", markersize=3.2, markerfacecolor="none", markeredgecolor=color, alpha=0.55)
