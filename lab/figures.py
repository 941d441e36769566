"""The colours of the laboratory's figures, on light and on dark pages."""

from __future__ import annotations

from typing import Any, NamedTuple

from sweet_rl.evaluation import figures


class Shade(NamedTuple):
    """Colours of a figure, and the settings of matplotlib with them.

    Attributes:
        accent: What the figure is about.
        other: What it is compared with.
        ink: Text and axes.
        band: A region behind the points.
        settings: For `matplotlib.pyplot.rc_context`.
    """

    accent: str
    other: str
    ink: str
    band: str
    settings: dict[str, Any]


def shade(dark: bool) -> Shade:
    """The colours for dark or light pages."""
    if not dark:
        return Shade(figures.ACCENT, "#7a7a7a", "#303030", "#e9eef5", dict(figures.SETTINGS))
    ink, paper = "#e6edf3", "#0d1117"
    inks = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
    papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    colors = dict.fromkeys(inks, ink) | dict.fromkeys(papers, paper) | {"grid.color": "#30363d"}
    return Shade("#6cb6ff", "#8b949e", ink, "#1c2a3d", figures.SETTINGS | colors)
