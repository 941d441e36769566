"""Credit assignment by turn: how often each critic agrees with the oracle of the mini tasks."""

from __future__ import annotations

from collections.abc import Mapping

from sweet_rl.analysis.figures.style import line_style, new_figure

FEWEST = 30  # pairs that a point needs to be drawn


def credit(results: Mapping[str, Mapping], title: str = ""):
    """results: by critic, `credit_accuracy`'s groups. One panel a group, turns counted from 1. Returns the figure."""
    groups = list(next(iter(results.values()))["groups"])
    figure, axes = new_figure(len(groups), width=3.3 * len(groups), height=3.8)
    for axis, group in zip(axes, groups, strict=True):
        for number, (name, result) in enumerate(results.items()):
            by_turn = result["groups"][group]["by_turn"]
            points = [(int(turn) + 1, 100 * v["accuracy"]) for turn, v in by_turn.items() if v["pairs"] >= FEWEST]
            style = {key: value for key, value in line_style(number).items() if key != "capsize"}
            if points:
                axis.plot(*zip(*sorted(points), strict=True), label=name, **style)
            else:
                axis.plot([], [], label=name, **style)
        axis.axhline(50, color="black", linewidth=0.7, linestyle=(0, (1, 3)))
        axis.set(xlabel="turn", ylim=(0, 102), title=group)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.title.set_fontsize(9)
    axes[0].set_ylabel("pairs ranked as by the oracle, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(title, fontsize=10)
    return figure
