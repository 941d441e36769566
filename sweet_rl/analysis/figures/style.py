"""How figures look, and how they are saved: told apart by marker, line and hatch, not by colour alone."""

from __future__ import annotations

from pathlib import Path

from sweet_rl.errors import UserError

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (8, 2)), (0, (3, 1, 1, 1)))
GREYS = ("#000000", "#404040", "#707070", "#1a1a1a", "#595959", "#8c8c8c", "#303030", "#7a7a7a")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "--", "oo", "||", "**")
FACES = ("#d9d9d9", "#ffffff", "#bdbdbd", "#f0f0f0")
SETTINGS = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": "#dddddd", "grid.linewidth": 0.6, "hatch.linewidth": 0.6, "legend.frameon": False,
    "legend.fontsize": 8, "figure.dpi": 150, "svg.hashsalt": "sweet_rl", "svg.fonttype": "path",
}  # fmt: skip


def new_figure(panels: int = 1, width: float = 6.4, height: float = 3.6):
    """(figure, list of axes) side by side. Raises UserError where matplotlib is not installed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("figures need matplotlib: pip install 'sweet_rl[plots]' (or matplotlib).") from error
    matplotlib.rcParams.update(SETTINGS)
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def line_style(number: int) -> dict:
    """Colour, line and marker of the series with this number."""
    return {
        "color": GREYS[number % len(GREYS)], "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)], "markersize": 5, "linewidth": 1.3, "capsize": 2.5,
        "markerfacecolor": "white" if number % 2 else GREYS[number % len(GREYS)],
    }  # fmt: skip


def save_figure(figure, path: str | Path) -> list[Path]:
    """Writes the figure as `path` with .png and with .svg, the same bytes for the same figure."""
    stem = Path(path)
    stem = stem.with_suffix("") if stem.suffix in (".png", ".svg") else stem
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        target = stem.with_name(f"{stem.name}.{kind}")
        figure.savefig(target, metadata=metadata)
        written.append(target)
    return written
