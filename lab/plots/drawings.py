"""Figures of studies, in the style of the paper's: lengths of messages, credit per turn, success against cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lab.plots.budget import cost_of
from lab.plots.message_lengths import message_lengths
from sweet_rl.evaluation import figures
from sweet_rl.runs.records import Trajectory

FEWEST_PAIRS = 30  # of a point in the figure of credit


def lengths(runs: Mapping[str, Sequence[Trajectory]], title: str = ""):
    """Lengths of the agent's messages: questions per turn as lines; answers as bars, with the share of dialogues that
    have one."""
    measured = {name: message_lengths(trajectories) for name, trajectories in runs.items()}
    unit = next(iter(measured.values()))["unit"]
    figure, (by_turn, answers) = figures.new_figure(2, width=8.6, height=3.6)
    places = list(range(len(measured)))[::-1]
    styles = figures.line_styles(measured)
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
    return figures.finished(figure, by_turn, title)


def credit(results: Mapping[str, Mapping], title: str = ""):
    """How often each critic agrees with the oracle of the mini tasks, per turn: one panel per group of decisions.

    Args:
        results: Results of each critic, {groups: {name: {by_turn: {turn from 0: {accuracy, pairs}}}}}, as written by
            measure_mini_credit.py. Points of fewer than 30 pairs are not drawn.
        title: Title of the figure.
    """
    groups = list(next(iter(results.values()))["groups"])
    figure, axes = figures.new_figure(len(groups), width=3.3 * len(groups), height=3.8)
    styles = figures.line_styles(results)
    for axis, group in zip(axes, groups, strict=True):
        for name, result in results.items():
            by_turn = {int(turn): value for turn, value in result["groups"][group]["by_turn"].items()}
            turns = [turn for turn in sorted(by_turn) if by_turn[turn]["pairs"] >= FEWEST_PAIRS]
            shares = [100 * by_turn[turn]["accuracy"] for turn in turns]
            axis.plot([turn + 1 for turn in turns], shares, label=name, **styles[name])
        axis.axhline(50, color=figures.PAPER, linewidth=0.8)
        axis.set(xlabel="turn", ylim=(0, 102), title=group)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.title.set_fontsize(9)
    axes[0].set_ylabel("pairs ranked as by the oracle, %")
    return figures.finished(figure, axes[0], title)


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
    figure, axes = figures.new_figure(len(groups), width=3.3 * len(groups), height=4.2)
    lines = figures.LINES[:4] + figures.LINES[5:]  # figures.LINES[4] looks like dots without a marker
    best = max(levels, key=lambda name: levels[name]["smallest"], default=None)
    others = [name for name in levels if name != best]
    dashes = {best: "-"} | {name: lines[number % len(lines)] for number, name in enumerate(others)}
    for axis, group in zip(axes, groups, strict=True):
        for number, (name, result) in enumerate(levels.items()):
            if (found := result["groups"][group])["pairs"]:
                axis.axhline(
                    100 * found["accuracy"],
                    label=name,
                    color=figures.GREYS[number % len(figures.GREYS)],
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
                color=figures.ACCENT,
                capsize=2,
                linewidth=1.4,
                marker=("o", *figures.MARKERS)[number % 9],
                markersize=5,
                linestyle=("-", *figures.LINES)[number % 8],
                markerfacecolor="white" if number else figures.ACCENT,
            )
        axis.axhline(50, color=figures.PAPER, linewidth=0.8)
        axis.set(xlabel="dialogues that the critic was trained on", ylim=(0, 102), title=group)
        if numbers := sorted({n for points in curves_.values() for n, _ in points}):
            axis.set_xscale("log")
            axis.set_xticks(numbers, [str(n) for n in numbers])
            axis.minorticks_off()
        axis.title.set_fontsize(9)
    axes[0].set_ylabel("pairs ranked as by the oracle, %")
    return figures.finished(figure, axes[0], title)


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
    """What each trained run reached against its compute and against the dialogues collected for it.

    The scale is that of the trained runs, and those of the same cost stand side by side. The others are named below.

    Args:
        points: {name, cpu_seconds, dialogues, mean, low, high} per run (`budget_points`).
        title: Title of the figure.
        measure: name of the measure that mean, low and high are of.
    """
    panels = (("cpu_seconds", "CPU seconds per seed"), ("dialogues", "dialogues collected per seed"))
    figure, axes = figures.new_figure(2, width=8.0, height=3.6)
    trained = [point for point in points if point["dialogues"]] or list(points)
    rest = [f"{point['name']} {100 * point['mean']:.1f} %" for point in points if point not in trained]
    styles = figures.line_styles([point["name"] for point in trained])
    for axis, (key, label) in zip(axes, panels, strict=True):
        most = max(1, *(point[key] for point in trained))
        for number, point in enumerate(trained):
            mean, errors = figures.percent(point)
            style = styles[point["name"]] | {"linestyle": "none"}
            beside = 0.02 * most * sum(other[key] == point[key] for other in trained[:number])
            axis.errorbar(point[key] + beside, mean, yerr=errors, label=point["name"], capsize=2.5, **style)
        axis.set(xlabel=label, xlim=(-0.05 * most, (1.05 + 0.02 * len(trained)) * most))
    if rest:
        axes[0].set_xlabel(f"{panels[0][1]}\nwithout training: {', '.join(rest)}")
    axes[0].set_ylabel(f"{measure} %")
    return figures.finished(figure, axes[0], title)


def budget_points(comparison: Mapping) -> list[dict]:
    """Cost and success of each run of a comparison. Playing and grading the test tasks is not counted.

    Args:
        comparison: JSON written by compare_runs.py.

    Returns:
        {name, cpu_seconds, dialogues, mean, low, high} per run; costs are means over its seeds.

    Raises:
        UserError: Something behind a run is not on this disk, so that what it cost is not known.
    """
    points = []
    for run in comparison["runs"]:
        costs = [cost_of(path) for path in comparison["files"][run["name"]]]
        means = {key: sum(cost[key] for cost in costs) / len(costs) for key in costs[0]}
        reached = {key: run[comparison["measure"]][key] for key in ("mean", "low", "high")}
        points.append({"name": run["name"], **means, **reached})
    return points
