"""What came out of a run: a sentence, how sure it is, and the table of agents with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from sweet_rl.evaluation.figures import SERIES_NAME
from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.evaluation.table import FEW_TASKS
from sweet_rl.viewer.report_charts import Html, interval_bar, tag
from sweet_rl.viewer.report_folder import METHODS, UNTRAINED

OPTIONAL = (("turns", "turns", 2), ("tokens", "agent tokens", 0))  # key, heading and decimals of a column


def headline(table: Mapping | None) -> list[Html]:
    """What came out in a sentence, and how sure that is.

    Args:
        table: A comparison, as `compare` returns it; None if nothing is evaluated.
    """
    if table is None:
        return [tag("h1", "Nothing is evaluated yet")]
    measure, runs = table["measure"], {run["name"]: run for run in table["runs"]}
    figures = {name: f"{100 * run[measure]['mean']:.1f}" for name, run in runs.items()}
    best = next((name for name in runs if name.startswith("SWEET")), max(runs, key=lambda name: float(figures[name])))
    what = f"of {table['tasks']} test tasks solved" if measure == "success" else f"{measure} on {table['tasks']} tasks"
    others = [name for name in (METHODS["dpo"], METHODS["rft"], UNTRAINED) if name in runs]
    others = [name for name in others or list(runs)[:4] if name != best]
    rest = "".join(f", {'untrained' if name == UNTRAINED else name} {figures[name]}" for name in others)
    return [
        tag("h1", tag("span", f"{best}: {figures[best]} %", class_="method"), f" {what}{rest}"),
        tag("p", certainty(runs[best], table), class_="lead"),
    ]


def certainty(run: Mapping, table: Mapping) -> str:
    """Whether the run differs from each baseline, and what the intervals do not cover."""
    sentences = []
    for name, gap in run["difference_to"].items():
        clear = "clearly" if gap["p_holm"] < 0.05 else "not clearly"
        way = "ahead of" if gap["mean"] >= 0 else "behind"
        sentences.append(f"It is {clear} {way} {name}: {_points(gap)} points (95 %: {_interval(gap)}, p {_p(gap)}).")
    if table["tasks"] < FEW_TASKS:
        sentences.append(f"Fewer than {FEW_TASKS} tasks show that the steps run, not which method is better.")
    elif _seeds(table) == 1:
        sentences.append("One seed per agent: the intervals do not cover another training.")
    return " ".join(sentences)


def results(title: str, table: Mapping) -> Html:
    """The table of runs, each figure with its interval."""
    measure, runs = table["measure"], table["runs"]
    more = [column for column in OPTIONAL if any(run.get(column[0]) is not None for run in runs)]
    baselines = list(table["baselines"])
    heading = ["agent", f"{measure} %", "", *(["tests passed %"] if measure == "success" else [])]
    heading += [label for _, label, _ in more] + [f"against {name}" for name in baselines]
    rows = []
    for run in runs:
        mean, interval = f"{100 * run[measure]['mean']:.1f}", interval_text(run[measure]["low"], run[measure]["high"])
        notes = ["untrained"] if run["name"] == UNTRAINED else []
        notes += [f"{run['seeds']} seeds"] if run["seeds"] > 1 else []
        cells = [
            tag("th", run["name"], tag("small", ", ".join(notes)), scope="row"),
            tag("td", tag("b", mean), tag("small", interval)),
            tag("td", interval_bar(run[measure], f"{mean} %, 95 % interval {interval}")),
        ]
        others: list[object] = []
        if measure == "success":
            others.append(f"{100 * run['tests_passed']['mean']:.1f}" if run.get("tests_passed") else "")
        others += ["" if run.get(key) is None else f"{run[key]:.{digits}f}" for key, _, digits in more]
        for gap in map(run["difference_to"].get, baselines):
            others.append([_points(gap), tag("small", f"{_interval(gap)}, p {_p(gap)}")] if gap else "")
        cells += [tag("td", text, data_label=label) for text, label in zip(others, heading[3:], strict=True)]
        rows.append(tag("tr", cells, class_="method" if run["name"].startswith("SWEET") else None))
    made = tag("table", tag("thead", tag("tr", [tag("th", text, scope="col") for text in heading])), tag("tbody", rows))
    over = "tasks" if _seeds(table) == 1 else "seeds and tasks"
    note = f"{table['tasks']} test tasks. Below each figure is its 95 % interval, by bootstrap over {over}."
    note += " Differences are paired task by task; their p-values are Holm-corrected." if baselines else ""
    box = tag("div", made, class_="scroll results", tabindex="0", role="region", aria_label=title)
    shown = [box, tag("p", note, class_="quiet")]
    if SERIES_NAME.fullmatch(runs[0]["name"]):  # drawn as curves
        return tag("details", tag("summary", f"{title}, as a table"), shown, class_="fold block")
    return tag("div", tag("h3", title) if title != "Results" else None, shown, class_="block")


def _seeds(table: Mapping) -> int:
    return max(run["seeds"] for run in table["runs"])


def _points(gap: Mapping[str, float]) -> str:
    return f"{100 * gap['mean']:+.1f}".replace("-", "−")


def _interval(gap: Mapping[str, float]) -> str:
    return interval_text(gap["low"], gap["high"], "+").replace("-", "−")


def _p(gap: Mapping[str, float]) -> str:
    return "< 0.001" if gap["p_holm"] < 0.001 else f"= {gap['p_holm']:.3f}"
