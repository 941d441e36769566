"""A table of runs as bars, with the paper's figures as marks beside them."""

from __future__ import annotations

from collections.abc import Mapping

from sweet_rl.analysis.figures.style import FACES, HATCHES, new_figure

PANELS = {"success": (("tests_passed", "tests", "tests passed %"), ("success", "success", "success %")),
          "similarity": (("similarity", "cosine", "similarity %"),)}  # fmt: skip


def bars(comparison: Mapping, title: str = ""):
    """comparison: `Comparison.to_dict()`, with the paper's rows under `paper` (or None). Returns the figure."""
    runs, paper = comparison["runs"], comparison.get("paper") or {}
    panels = PANELS[comparison["measure"]]
    figure, axes = new_figure(len(panels), width=2.2 + 2.6 * len(panels), height=0.9 + 0.42 * len(runs))
    places = list(range(len(runs)))[::-1]
    for axis, (key, paper_key, label) in zip(axes, panels, strict=True):
        for number, (place, run) in enumerate(zip(places, runs, strict=True)):
            value = run[key]
            mean, low, high = (100 * value[name] for name in ("mean", "low", "high"))
            axis.barh(place, mean, 0.62, color=FACES[number % len(FACES)], edgecolor="black", linewidth=0.8,
                      hatch=HATCHES[number % len(HATCHES)])  # fmt: skip
            axis.errorbar(mean, place, xerr=[[mean - low], [high - mean]], color="black", capsize=3, linewidth=1.2)
        marks = [(paper[run["name"]][paper_key], place) for place, run in zip(places, runs, strict=True)
                 if paper_key in paper.get(run["name"], {})]  # fmt: skip
        if marks:
            axis.plot(*zip(*marks, strict=True), "D", color="black", markerfacecolor="white", markersize=6,
                      label="the paper, its own models and tasks")  # fmt: skip
        axis.set_xlabel(label)
        axis.set_xlim(left=0)
        axis.grid(axis="y", visible=False)
        axis.set_yticks(places, [run["name"] for run in runs] if axis is axes[0] else [""] * len(runs))
    if axes[0].get_legend_handles_labels()[0]:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center")
    figure.suptitle(title, fontsize=10)
    return figure
