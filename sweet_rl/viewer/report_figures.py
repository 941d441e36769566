"""Charts of a run: success against what it cost, and the loss and accuracy of each training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweet_rl.evaluation.budget import UnknownCost, behind_dialogues, cpu_seconds_of, dialogues_in
from sweet_rl.evaluation.figures import SERIES_NAME, series_of
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.viewer.report_charts import Chart, Html, Series, tag
from sweet_rl.viewer.report_folder import METHODS, UNTRAINED, Output, RunFolder

COUNTS = ("pairs", "trajectories", "successes")  # what a training counts in its summary
PANELS = (("loss", "loss", 1), ("accuracy", "accuracy, %", 100))  # key in the log, label, factor


def costs(tables: Mapping[str, Mapping]) -> list[Html]:
    """Success against dialogues, optimiser steps and CPU time.

    Runs named series@x are curves. Other runs are one point each, in a chart for each cost in which the trained agents
    differ; a cost that is the same for all of them is a sentence. The untrained agent is a sentence too: an axis that
    reaches down to it would put the trained ones on top of each other.
    """
    charts, notes = [], []
    for title, table in tables.items():
        if any(SERIES_NAME.fullmatch(run["name"]) for run in table["runs"]):
            x_label = title.rpartition(": ")[2]
            charts.append((title, Chart(curves(table), x_label, f"{table['measure']} %", percent=True, form=".1f")))
    main = next((table for table in tables.values() if not SERIES_NAME.fullmatch(table["runs"][0]["name"])), None)
    points = cost_points(main) if main else []
    trained = [point for point in points if point["name"] != UNTRAINED]
    costs_of = trained[0]["cost"] if trained else {}
    differing = [cost for cost in costs_of if len({point["cost"][cost] for point in trained}) > 1]
    if main and differing:
        notes.append(
            "A point per trained agent with its 95 % interval: what it reached, and what all steps behind it took."
        )
        for point in points:
            if point["name"] == UNTRAINED:
                notes.append(f"The untrained agent, at {point['percent'][0]:.1f} %, is outside of the charts.")
    for cost, same in costs_of.items():
        if main and cost in differing:
            chart = Chart(at_costs(trained, cost), cost, f"{main['measure']} %", form=".1f")
            charts.append((f"{main['measure']} %", chart))
        elif same:
            notes.append(f"The same behind every trained agent: {same:,.0f} {cost}.")
    cards = [chart.figure(title, "card") for title, chart in charts]
    return [tag("p", " ".join(notes), class_="quiet"), tag("div", cards, class_="charts")] if cards or notes else []


def at_costs(points: Sequence[Mapping], cost: str) -> list[Series]:
    """A series per agent at its cost; agents of the same cost whose intervals overlap stand side by side."""
    made: list[Series] = []
    for point in points:
        place = (point["cost"][cost], *point["percent"])
        at, _, low, high = place
        others = [other for one in made for other in one.points]
        beside = sum(x == at and lowest <= high and low <= highest for x, _, lowest, highest in others)
        made.append(Series(point["name"], [place], beside=beside))
    return made


def curves(table: Mapping) -> list[Series]:
    """Runs named series@x as curves with intervals."""
    return [
        Series(name, [(x, *_percent(run[table["measure"]])) for x, run in points])
        for name, points in series_of(table).items()
    ]


def cost_points(table: Mapping) -> list[dict]:
    """{name, cost, percent} of the runs whose cost is known; `cost` has the means over the seeds by name of the cost.

    Playing and grading the test tasks is left out. The cost of a trained agent is not known if something behind it is
    elsewhere now, or no training is; without one that is known there are no points.
    """
    points = []
    for run in table["runs"]:
        try:
            seeds = [behind_dialogues(path) for path in table["files"][run["name"]]]
        except UnknownCost:
            continue
        sums = {
            "dialogues collected": sum(dialogues_in(path) for paths in seeds for path in paths),
            "optimiser steps": sum(steps_in(path) for paths in seeds for path in paths),
            "CPU seconds of all steps": sum(cpu_seconds_of(path) for paths in seeds for path in paths),
        }
        if sums["optimiser steps"] or (seeds and run["name"] == UNTRAINED):
            means = {name: value / len(seeds) for name, value in sums.items()}
            points.append({"name": run["name"], "cost": means, "percent": _percent(run[table["measure"]])})
    return points if any(point["name"] != UNTRAINED for point in points) else []


def steps_in(path: str) -> int:
    """The optimiser steps of a training; 0 for any other output."""
    manifest = read_manifest(path)
    return int(manifest.get("summary", {}).get("steps", 0)) if manifest else 0


def _percent(estimate: Mapping[str, float]) -> tuple[float, float, float]:
    return 100 * estimate["mean"], 100 * estimate["low"], 100 * estimate["high"]


def trainings(folder: RunFolder) -> list[Html]:
    """A row for each training: its data, and its loss and accuracy by optimiser step."""
    return [tag("div", facts(output), charts(output), class_="card training") for output in folder.trainings]


def facts(output: Output) -> Html:
    """What a training made of what."""
    summary, settings = output.manifest.get("summary") or {}, output.manifest["settings"]
    words = [f"from {Path(str(settings.get('pretrain'))).name} on {Path(str(settings.get('dataset'))).name}"]
    words += [f"{summary[key]:,} {key}" for key in COUNTS if key in summary]
    words += (
        [f"{summary['steps']:,} step{'' if summary['steps'] == 1 else 's'} in {summary['seconds']:,.0f} s"]
        if "steps" in summary
        else ["not finished"]
    )
    words += [f"learning rate {settings['learning_rate']:g}"]
    name = METHODS.get(output.path.name)
    return tag(
        "div",
        tag("h3", f"{name} " if name else "", tag("code", output.name)),
        tag("p", output.step.what if output.step else "a trained model"),
        tag("p", "; ".join(words), class_="quiet"),
    )


def charts(output: Output) -> list[Html]:
    """The loss and, if it was logged, the accuracy of a training, on its own data and on held-out data."""
    made = []
    for key, label, factor in PANELS:
        series = []
        for name, logged in (("", key), ("held out", f"eval_{key}")):
            points = [(line["step"], *[factor * line[logged]] * 3) for line in output.log if finite(line.get(logged))]
            series += [Series(name, points, hollow=bool(name))] if points else []
        if series:
            made.append(Chart(series, "optimiser step", label, percent=factor == 100, height=170).figure(label))
    return made


def finite(value: object) -> bool:
    """Whether a logged value can be drawn: a loss may be NaN."""
    return isinstance(value, int | float) and math.isfinite(value)
