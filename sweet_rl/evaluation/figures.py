"""Figures of results, drawn with matplotlib, and one function that saves them as PNG and SVG.

Every point is a mean with its interval, and behind it a small circle for each seed. The method of the paper has the one
colour; everything else is grey and told apart by marker and line, so that a print in black and white can be read.
Every drawing function returns the figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sweet_rl.errors import UserError, extras_named
from sweet_rl.evaluation.message_lengths import message_lengths
from sweet_rl.records import Trajectory

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
SERIES_NAME = re.compile(r"(.+)@(\d+(?:\.\d+)?)")
FEWEST_PAIRS = 30  # of a point in the figure of credit


def table(comparison: Mapping, title: str = ""):
    """A table of runs: for each the mean with its interval and its seeds, and the paper's figure as a grey mark.

    Args:
        comparison: `Comparison.to_dict()`, with the paper's rows under `paper` (or None).
        title: Title of the figure.
    """
    runs, paper = comparison["runs"], comparison.get("paper") or {}
    panels = PANELS[comparison["measure"]]
    figure, axes = _new_figure(len(panels), width=2.2 + 2.8 * len(panels), height=1.0 + 0.36 * len(runs))
    places = list(range(len(runs)))[::-1]
    for axis, (key, paper_key, label) in zip(axes, panels, strict=True):
        for place, run in zip(places, runs, strict=True):
            mean, errors = _percent(run[key])
            color = _color(run["name"])
            seeds = [100 * value for value in run.get(f"{key}_by_seed") or []]
            if len(seeds) > 1:
                axis.plot(seeds, [place] * len(seeds), **_seed_style(color))
            axis.errorbar(mean, place, xerr=errors, fmt="o", color=color, markersize=6, linewidth=1.6, capsize=3)
            axis.annotate(
                f"{mean:.1f}",
                (mean, place),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
                color=color,
            )
        marks = [
            (paper[run["name"]][paper_key], place)
            for place, run in zip(places, runs, strict=True)
            if paper_key in paper.get(run["name"], {})
        ]
        if marks:
            axis.plot(
                *zip(*marks, strict=True),
                "|",
                color=PAPER,
                markersize=13,
                markeredgewidth=2,
                label="the paper (its own models and tasks)",
            )
        axis.set_xlabel(label)
        if key == "similarity":  # the untrained agent's pages are alike already: from 0, nothing could be told apart
            axis.margins(x=0.1)
        else:
            axis.set_xlim(-3, 103)
        axis.set_ylim(-0.6, len(runs) - 0.4)
        axis.grid(axis="y", visible=False)
        axis.set_yticks(places, [run["name"] for run in runs] if axis is axes[0] else [""] * len(runs))
        axis.tick_params(axis="y", length=0)
    return _finished(figure, axes[0], title, columns=1)


def curves(comparison: Mapping, title: str = "", x_label: str = "", paper: Sequence[Mapping] = ()):
    """Runs named `series@x` as curves: best of N per turn (the paper, Figure 3a), data scaling (Figure 3b).

    Args:
        comparison: `Comparison.to_dict()`.
        title: Title of the figure.
        x_label: Label of the x axis.
        paper: the paper's points {series, success, x?}, success in percent. A point without x is drawn as a level;
            points with x get a panel of their own.

    Raises:
        UserError: no run is named series@x.
    """
    series, measure = series_of(comparison), comparison["measure"]
    panels = 2 if any("x" in point for point in paper) else 1
    figure, axes = _new_figure(panels, width=5.6 * panels**0.7, height=3.6)
    xs = sorted({x for points in series.values() for x, _ in points})
    doubling = len(xs) > 2 and min(xs) > 0 and all(b == 2 * a for a, b in zip(xs, xs[1:], strict=False))
    styles = _line_styles(series)
    for number, (name, points) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * 0.012  # keeps the error bars of series at the same x apart
        at = [x * (1 + 2 * shift) if doubling else x + shift * (xs[-1] - xs[0]) for x, _ in points]
        for x, (_, run) in zip(at, points, strict=True):
            seeds = [100 * value for value in run.get(f"{measure}_by_seed") or []]
            if len(seeds) > 1:
                axes[0].plot([x] * len(seeds), seeds, **_seed_style(styles[name]["color"]))
        means, errors = zip(*(_percent(run[measure]) for _, run in points), strict=True)
        axes[0].errorbar(at, means, yerr=np.hstack(errors), label=name, capsize=2.5, **styles[name])
    if doubling:
        axes[0].set_xscale("log", base=2)
        axes[0].minorticks_off()
    axes[0].set_xticks(xs, [f"{x:g}" for x in xs])
    for point in paper:
        if "x" not in point:
            axes[0].axhline(point["success"], color=PAPER, linewidth=1.2)
            axes[0].annotate(
                f"the paper: {point['series']}, {point.get('note', '')} {point['success']} %",
                (0.99, point["success"]),
                xycoords=("axes fraction", "data"),
                fontsize=7.5,
                ha="right",
                xytext=(0, 2),
                textcoords="offset points",
                color="#606060",
                zorder=9,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
            )
    if panels == 2:
        names = list(dict.fromkeys(point["series"] for point in paper))
        styles = _line_styles([*series, *names])
        for name in names:
            known = sorted((point["x"], point["success"]) for point in paper if point["series"] == name)
            axes[1].plot(*zip(*known, strict=True), label=name, **styles[name])
        axes[1].set_title("the paper (its own models and tasks)", fontsize=9)
        axes[1].set_ylim(bottom=0)
        axes[1].margins(x=0.06)
        axes[1].set_xlabel(x_label)
    axes[0].set_ylabel(f"{measure} %")
    axes[0].set_xlabel(x_label)
    return _finished(figure, axes[0], title)


def series_of(comparison: Mapping) -> dict[str, list[tuple[float, dict]]]:
    """For each series its points (x, run), sorted by x. Raises UserError if no run is named series@x."""
    found: dict[str, list[tuple[float, dict]]] = {}
    for run in comparison["runs"]:
        if match := SERIES_NAME.fullmatch(run["name"]):
            found.setdefault(match[1], []).append((float(match[2]), run))
    if not found:
        raise UserError("no run is named series@x (e.g. 'SWEET critic@4'), so there is nothing to draw as a curve.")
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def lengths(runs: Mapping[str, Sequence[Trajectory]], title: str = ""):
    """Lengths of the agent's messages: questions per turn as lines; answers as bars, with the share of dialogues that
    have one."""
    measured = {name: message_lengths(trajectories) for name, trajectories in runs.items()}
    unit = next(iter(measured.values()))["unit"]
    figure, (by_turn, answers) = _new_figure(2, width=8.6, height=3.6)
    places = list(range(len(measured)))[::-1]
    styles = _line_styles(measured)
    for place, (name, found) in zip(places, measured.items(), strict=True):
        by_turn.plot(list(found["questions"]), list(found["questions"].values()), label=name, **styles[name])
        answers.barh(place, found["answers"] or 0.0, height=0.5, color=styles[name]["color"])
        answers.annotate(
            f"{100 * found['answered']:.0f} % answer",
            (found["answers"] or 0.0, place),
            xytext=(3, -3),
            textcoords="offset points",
            fontsize=7.5,
        )
    by_turn.set(xlabel="turn", ylabel=f"{unit} of a question", ylim=(0, 1.1 * by_turn.dataLim.y1))
    answers.set(xlabel=f"{unit} of an answer", yticks=places, yticklabels=list(measured))
    answers.margins(x=0.25)
    answers.grid(axis="y", visible=False)
    return _finished(figure, by_turn, title)


def credit(results: Mapping[str, Mapping], title: str = ""):
    """How often each critic agrees with the oracle of the mini tasks, per turn: one panel per group of decisions.

    Args:
        results: Results of each critic, {groups: {name: {by_turn: {turn from 0: {accuracy, pairs}}}}}, as written by
            lab.critics.measure_mini_credit. Points of fewer than 30 pairs are not drawn.
        title: Title of the figure.
    """
    groups = list(next(iter(results.values()))["groups"])
    figure, axes = _new_figure(len(groups), width=3.3 * len(groups), height=3.8)
    styles = _line_styles(results)
    for axis, group in zip(axes, groups, strict=True):
        for name, result in results.items():
            by_turn = {int(turn): value for turn, value in result["groups"][group]["by_turn"].items()}
            turns = [turn for turn in sorted(by_turn) if by_turn[turn]["pairs"] >= FEWEST_PAIRS]
            shares = [100 * by_turn[turn]["accuracy"] for turn in turns]
            axis.plot([turn + 1 for turn in turns], shares, label=name, **styles[name])
        axis.axhline(50, color=PAPER, linewidth=0.8)
        axis.set(xlabel="turn", ylim=(0, 102), title=group)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.title.set_fontsize(9)
    axes[0].set_ylabel("pairs ranked as by the oracle, %")
    return _finished(figure, axes[0], title)


def credit_study(results: Mapping[str, Mapping], title: str = ""):
    """Agreement with the oracle against the dialogues that a critic was trained on; one panel per group of decisions.

    Critics without training are levels, the best of them a solid line. Of the aggregations of a critic the one is drawn
    whose smallest accuracy at the most dialogues is the highest.

    Args:
        results: Results as of `credit`, with `accuracy`, `interval` and `pairs` of each group, and `smallest`; named
            `critic, aggregation` or, if the critic was trained, `critic, aggregation@dialogues`.
        title: Title of the figure.
    """
    levels, curves_ = best_aggregations(results)
    groups = list(next(iter(results.values()))["groups"])
    figure, axes = _new_figure(len(groups), width=3.3 * len(groups), height=4.2)
    lines = LINES[:4] + LINES[5:]  # LINES[4] looks like dots without a marker
    best = max(levels, key=lambda name: levels[name]["smallest"], default=None)
    others = [name for name in levels if name != best]
    dashes = {best: "-"} | {name: lines[number % len(lines)] for number, name in enumerate(others)}
    for axis, group in zip(axes, groups, strict=True):
        for number, (name, result) in enumerate(levels.items()):
            if (found := result["groups"][group])["pairs"]:
                axis.axhline(
                    100 * found["accuracy"],
                    label=name,
                    color=GREYS[number % len(GREYS)],
                    linestyle=dashes[name],
                    linewidth=1.2,
                )
        for number, (name, points) in enumerate(curves_.items()):
            known = [(n, found) for n, result in points if (found := result["groups"][group])["pairs"]]
            if not known:
                continue
            shares = 100 * np.array([[found["accuracy"], *found["interval"]] for _, found in known])
            at = [n * 1.06 ** (number - (len(curves_) - 1) / 2) for n, _ in known]  # error bars apart
            errors = np.abs(shares[:, 1:].T - shares[:, 0])
            axis.errorbar(
                at,
                shares[:, 0],
                yerr=errors,
                label=name,
                color=ACCENT,
                capsize=2,
                linewidth=1.4,
                marker=("o", *MARKERS)[number % 9],
                markersize=5,
                linestyle=("-", *LINES)[number % 8],
                markerfacecolor="white" if number else ACCENT,
            )
        axis.axhline(50, color=PAPER, linewidth=0.8)
        axis.set(xlabel="dialogues that the critic was trained on", ylim=(0, 102), title=group)
        if numbers := sorted({n for points in curves_.values() for n, _ in points}):
            axis.set_xscale("log")
            axis.set_xticks(numbers, [str(n) for n in numbers])
            axis.minorticks_off()
        axis.title.set_fontsize(9)
    axes[0].set_ylabel("pairs ranked as by the oracle, %")
    return _finished(figure, axes[0], title)


def best_aggregations(
    results: Mapping[str, Mapping],
) -> tuple[dict[str, Mapping], dict[str, list[tuple[int, Mapping]]]]:
    """The rows that `credit_study` draws: {row: result} without training, {row: [(dialogues, result)]} with it."""
    series: dict[str, list[tuple[int, Mapping]]] = {}
    for name, result in results.items():
        row, _, dialogues = name.partition("@")
        series.setdefault(row, []).append((int(dialogues or 0), result))
    best: dict[str, str] = {}
    for row, points in series.items():
        points.sort(key=lambda point: point[0])
        critic = row.rpartition(", ")[0]
        if critic not in best or points[-1][1]["smallest"] > series[best[critic]][-1][1]["smallest"]:
            best[critic] = row
    shown = {row: series[row] for row in best.values()}
    levels = {row: points[0][1] for row, points in shown.items() if points[-1][0] == 0}
    return levels, {row: points for row, points in shown.items() if row not in levels}


def budget(points: Sequence[Mapping], title: str = "", measure: str = "success"):
    """What each run reached against its compute and against the dialogues collected for it.

    Args:
        points: {name, cpu_seconds, dialogues, mean, low, high} per run (`budget.budget_points`).
        title: Title of the figure.
        measure: name of the measure that mean, low and high are of.
    """
    panels = (("cpu_seconds", "CPU seconds per seed"), ("dialogues", "dialogues collected per seed"))
    figure, axes = _new_figure(2, width=8.0, height=3.6)
    styles = _line_styles([point["name"] for point in points])
    for axis, (key, label) in zip(axes, panels, strict=True):
        for point in points:
            mean, errors = _percent(point)
            style = styles[point["name"]] | {"linestyle": "none"}
            axis.errorbar(point[key], mean, yerr=errors, label=point["name"], capsize=2.5, **style)
        most = max(1, *(point[key] for point in points))
        axis.set(xlabel=label, xlim=(-0.05 * most, 1.05 * most))
    axes[0].set_ylabel(f"{measure} %")
    return _finished(figure, axes[0], title)


def save_figure(figure, path: str | Path) -> list[Path]:
    """Write the figure as `path` with .png and with .svg; return both paths. The same figure gives the same bytes."""
    stem = Path(path)
    stem = stem.with_suffix("") if stem.suffix in (".png", ".svg") else stem
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        target = stem.with_name(f"{stem.name}.{kind}")
        figure.savefig(target, metadata=metadata)
        written.append(target)
    return written


def _new_figure(panels: int, width: float, height: float):
    """(figure, list of axes side by side), sizes in inches. Raises UserError if matplotlib is not installed."""
    with extras_named():
        import matplotlib
        from matplotlib.figure import Figure
    matplotlib.rcParams.update(SETTINGS)
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def _finished(figure, axis, title: str, columns: int = 3):
    """The figure with its title and, if the axis has labels, a legend of them below."""
    if axis.get_legend_handles_labels()[0]:
        figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    figure.suptitle(title, fontsize=10)
    return figure


def _percent(estimate: Mapping[str, float]) -> tuple[float, list[list[float]]]:
    """The mean in percent and its distances to both ends of the interval, as matplotlib takes error bars: [2, 1]."""
    mean, low, high = (100 * estimate[name] for name in ("mean", "low", "high"))
    return mean, [[mean - low], [high - mean]]


def _color(name: str, number: int = 0) -> str:
    return ACCENT if name.startswith("SWEET") else GREYS[number % len(GREYS)]


def _line_styles(names: Iterable[str]) -> dict[str, dict]:
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


def _seed_style(color: str) -> dict:
    return {
        "linestyle": "none",
        "marker": "o",
        "markersize": 3.2,
        "markerfacecolor": "none",
        "markeredgecolor": color,
        "markeredgewidth": 0.7,
        "alpha": 0.55,
    }
