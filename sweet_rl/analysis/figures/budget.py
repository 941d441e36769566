"""What a run cost and what it reached: success against compute and against dialogues collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.analysis.figures.style import line_style, new_figure


def budget(points: Sequence[Mapping], title: str = "", measure: str = "success"):
    """points: {name, cpu_seconds, gpu_seconds, dialogues, mean, low, high} a run. Returns the figure."""
    compute = "gpu_seconds" if any(point["gpu_seconds"] for point in points) else "cpu_seconds"
    panels = ((compute, f"{compute[:3].upper()} seconds a seed"), ("dialogues", "dialogues collected a seed"))
    figure, axes = new_figure(2, width=8.0, height=3.6)
    for axis, (key, label) in zip(axes, panels, strict=True):
        for number, point in enumerate(points):
            mean, low, high = (100 * point[name] for name in ("mean", "low", "high"))
            style = {**line_style(number), "linestyle": "none"}
            axis.errorbar(point[key], mean, yerr=[[mean - low], [high - mean]], label=point["name"], **style)
        most = max(1, *(point[key] for point in points))
        axis.set(xlabel=label, xlim=(-0.05 * most, 1.05 * most))
    axes[0].set_ylabel(f"{measure} %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(title, fontsize=10)
    return figure
