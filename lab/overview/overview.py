"""The main table and the forest plot of docs/results.md, from the committed files of the studies.

    python -m lab.overview.overview

It writes overview.md into results/, and forest-light.png and forest-dark.png into docs/pictures/.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.outcomes import ROOT, difference, runs, summary
from sweet_rl.evaluation import figures
from sweet_rl.evaluation.statistics import holm
from sweet_rl.runs.cli import run

RESULTS = Path(__file__).parent / "results"
COLUMNS = {
    "zero-shot": "zero-shot",
    "rejection fine-tuning": "rejection fine-tuning",
    "multi-turn DPO": "multi-turn DPO",
    "untrained": "PMI",
    "SWEET-RL": "SWEET-RL",
    "paper": "paper's reference",
}
NAMES = {"untrained": "no critic training", "paper": "seed model as reference"}


@dataclass(frozen=True)
class Setting:
    """An agent and its tasks.

    Attributes:
        name: As it is shown.
        files: The comparisons with its runs; a run with the name of a column is taken from the first that has it.
        at: Ending of the runs' names in files of curves.
        pooled: Whether it is one of the settings that are pooled: of an agent of its own, measured by success.
        joined: Whether the files are series of one setting, whose seeds are put together.
        compared: Whether SWEET-RL is compared with multi-turn DPO. Seeds of a joined setting are compared there.
    """

    name: str
    files: tuple[str, ...]
    at: str = ""
    pooled: bool = True
    joined: bool = False
    compared: bool = True


TAUGHT, HARD = "lab/pretraining/results/share_{}.json", "results/mini_hard/{}.json"
SETTINGS = (
    Setting("quick world", ("results/mini/table2.json", "results/mini/table3.json")),
    Setting("120 dialogues", ("results/mini/figure3b.json",), at="@120", pooled=False),
    Setting("40 dialogues", ("results/mini/figure3b.json",), at="@40", pooled=False),
    Setting("larger agent", ("results/mini/table4.json",)),
    Setting("solution shown in 20 %", (TAUGHT.format(20),)),
    Setting("solution shown in 10 %", (TAUGHT.format(10),)),
    Setting("solution shown in 5 %", (TAUGHT.format(5),)),
    Setting("solution never shown", (TAUGHT.format(0),)),
    Setting("hard world", (HARD.format("table2"), HARD.format("table3")), compared=False),
    Setting("hard world, more seeds", (HARD.format("ten_seeds"), HARD.format("replication_2")), joined=True),
    Setting(
        "hard world, 2nd round", ("lab/policy_gradients/results/online.json",), at="@400", pooled=False
    ),
    Setting("web pages (similarity)", ("lab/pages/results/pages.json",), pooled=False),
    Setting(
        "SmolLM2-135M", ("lab/smollm2/results/table2.json",), pooled=False
    ),
)  # fmt: skip


def values(setting: Setting, column: str) -> tuple[float, list[float]] | None:
    """The mean of a column in a setting, and its values by seed; None if it was not run there."""
    if setting.joined:
        series = [runs(file)[column][1] for file in setting.files if column in runs(file)]
        seeds = [value for one in series for value in one]
        return (float(np.mean(seeds)), seeds) if len(series) == len(setting.files) else None
    for name in (f"{column}{setting.at}", NAMES.get(column, column), f"SWEET-RL ({NAMES.get(column)})"):
        for file in setting.files:
            if name in runs(file):
                return runs(file)[name]
    return None


def overview() -> dict[str, Any]:
    """The rows of the table, and of both columns of the figure with their pooled line."""
    rows: list[dict[str, Any]] = []
    for setting in SETTINGS:
        found = {column: values(setting, column) for column in COLUMNS}
        row: dict[str, Any] = {
            "name": setting.name,
            "pooled": setting.pooled,
            "means": {column: one and one[0] for column, one in found.items()},
        }
        seeds = {column: one[1] for column, one in found.items() if one}
        row["seeds"] = len(seeds["SWEET-RL"])
        if "untrained" in seeds:
            row["training"] = difference(seeds["SWEET-RL"], seeds["untrained"])
        if setting.compared:
            row["lead"] = difference(seeds["SWEET-RL"], seeds["multi-turn DPO"])
        rows.append(row)
    pooled = {}
    for column in ("lead", "training"):
        tested = [row[column] for row in rows if "p" in row.get(column, {})]
        for one, p in zip(tested, holm([one["p"] for one in tested]), strict=True):
            one["p_holm"] = p
        pooled[column] = summary([row[column]["mean"] for row in rows if row["pooled"] and column in row])
    return {"rows": rows, "pooled": pooled}


def markdown(found: dict[str, Any]) -> str:
    """The main table, and the differences of the figure in figures."""
    lines = ["| setting | seeds | " + " | ".join(COLUMNS.values()) + " |", "| --- |" + " ---: |" * (1 + len(COLUMNS))]
    for row in found["rows"]:
        cells = ["" if mean is None else f"{mean:.1f}" for mean in row["means"].values()]
        lines.append(f"| {row['name']} | {row['seeds']} | " + " | ".join(cells) + " |")
    lines += ["", "| setting | seeds | SWEET-RL - multi-turn DPO | p | SWEET-RL - PMI | p |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    pooled = [
        {"name": f"pooled, {one['count']} settings", "seeds": "", column: one}
        for column, one in found["pooled"].items()
    ]
    for row in [*found["rows"], *pooled]:
        cells = [str(row["seeds"]), *_cells(row.get("lead")), *_cells(row.get("training"))]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cells(one: dict[str, Any] | None) -> tuple[str, str]:
    if one is None:
        return "", ""
    mean, low, high = (f"{round(one.get(part, 0.0), 1) + 0.0:+.1f}" for part in ("mean", "low", "high"))
    if "p" not in one:
        return mean, ""
    p = one.get("p_holm", one["p"])
    shown = "< 0.001" if p < 0.001 else f"{p:.3f}"
    return f"{mean} ({low} to {high})", shown


def shade(dark: bool) -> tuple[str, str, str, dict[str, Any]]:
    """Colours on dark or light pages: of what the figure is about, of the others, of text; settings of matplotlib."""
    if not dark:
        return figures.ACCENT, "#7a7a7a", "#303030", dict(figures.SETTINGS)
    ink, paper = "#e6edf3", "#0d1117"
    inks = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
    papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    colors = dict.fromkeys(inks, ink) | dict.fromkeys(papers, paper) | {"grid.color": "#30363d"}
    return "#6cb6ff", "#8b949e", ink, figures.SETTINGS | colors


def forest(found: dict[str, Any], dark: bool = False) -> Any:
    """The figure: a line a setting, SWEET-RL minus multi-turn DPO on the left, SWEET-RL minus PMI on the right."""
    import matplotlib.pyplot as plt

    rows = [*found["rows"], {"name": "pooled", **found["pooled"]}]
    accent, other, ink, settings = shade(dark)
    with plt.rc_context(settings):
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 0.8 + 0.3 * len(rows)), sharey=True, width_ratios=(3, 2))
        places = list(range(len(rows)))[::-1]
        titles = ("SWEET-RL minus multi-turn DPO, points", "SWEET-RL minus PMI")
        for axis, column, title in zip(axes, ("lead", "training"), titles, strict=True):
            axis.axvline(0, color=ink, linewidth=0.8)
            for place, row in zip(places, rows, strict=True):
                if (one := row.get(column)) is None:
                    continue
                pooled = row["name"] == "pooled"
                mean, color = one["mean"], accent if pooled or row.get("pooled") else other
                ends = [[mean - one["low"]], [one["high"] - mean]] if "low" in one else None
                shape = {"fmt": "D" if pooled else "o", "color": color, "capsize": 2.5, "linewidth": 1.5}
                axis.errorbar(mean, place, xerr=ends, markersize=7 if pooled else 5, **shape)
            axis.axhline(0.5, color=other, linewidth=0.8)
            axis.set_title(title, fontsize=9, loc="left")
            axis.grid(axis="y", visible=False)
            axis.tick_params(axis="y", length=0)
            axis.set_ylim(-0.6, len(rows) - 0.4)
        names = [f"{row['name']}  ({row['seeds']})" if "seeds" in row else row["name"] for row in rows]
        axes[0].set_yticks(places, names)
        figure.tight_layout()
    return figure


def main() -> None:
    """Write overview.md, and the figure of the page of results."""
    found = overview()
    (RESULTS / "overview.md").write_text(markdown(found))
    for page in ("light", "dark"):
        forest(found, page == "dark").savefig(ROOT / f"docs/pictures/forest-{page}.png")
    print(markdown(found))


if __name__ == "__main__":
    run(main)
