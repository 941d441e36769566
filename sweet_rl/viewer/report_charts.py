"""HTML elements whose text is always escaped, and charts of them as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweet_rl.viewer.html_file import escaped

WIDTH = 340  # of a chart, in pixels of a narrow phone
LEFT, RIGHT, TOP, BOTTOM = 38, 12, 12, 38
MARKS = ("M-4,-4h8v8h-8z", "M0,-5L5,4H-5z", "M0,-5.5L5,0L0,5.5L-5,0z", "M-5,-4H5L0,5z")
DOT = "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"


class Html(str):
    """HTML that is inserted as it is; every other text is escaped."""


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element. None and False are left out; `class_` is class, and `_` in other names is a hyphen.

    Args:
        name: Name of the element.
        children: Html, or text, or lists of both.
        attributes: Values of the attributes; True gives one without a value.
    """
    words = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            key = key.rstrip("_").replace("_", "-")
            words.append(key if value is True else f'{key}="{escaped(str(value))}"')
    return Html(f"<{' '.join(words)}>{joined(children)}</{name}>")


def joined(children: object) -> Html:
    """Html of texts, elements and lists of them."""
    if isinstance(children, Html):
        return children
    if isinstance(children, list | tuple):
        return Html("".join(map(joined, children)))
    return Html("" if children is None or children is False else escaped(str(children)))


@dataclass(frozen=True)
class Series:
    """Points of a chart: (x, y, low, high), where low and high may be y.

    Attributes:
        name: Name in the legend; "" for none.
        points: The points in the order of x, joined by a line.
        hollow: Whether the marks are hollow.
        beside: Number of marks at the same place, to the right of which these are drawn.
    """

    name: str
    points: Sequence[tuple[float, float, float, float]]
    hollow: bool = False
    beside: int = 0


@dataclass
class Chart:
    """A chart with its axes.

    Attributes:
        series: What is drawn: at least one point.
        x_label: Label of the x axis, which begins at 0; its ticks are whole if all x are.
        y_label: What the values are, for those who do not see the chart.
        percent: Whether the y axis is 0 to 100 %; else it covers the values.
        form: Format of a value in words.
        height: Height in pixels.
    """

    series: Sequence[Series]
    x_label: str
    y_label: str
    percent: bool = False
    form: str = ".4g"
    height: int = 220

    def __post_init__(self) -> None:
        points = [point for series in self.series for point in series.points]
        values = [value for _, *values in points for value in values]
        self._end = max(x for x, *_ in points) * 1.04 or 1.0
        whole = all(x == int(x) for x, *_ in points)
        self._x_ticks = [x for x in ticks(0, self._end) if x <= self._end and not (whole and x % 1)]
        self._y_ticks = [0, 25, 50, 75, 100] if self.percent else ticks(min(values), max(values))

    def figure(self, title: str, class_: str | None = None) -> Html:
        """The chart under its title, with a legend of the series that have a name."""
        last = "; ".join(
            f"{s.name} {p[1]:{self.form}} at {p[0]:,.10g}".strip() for s in self.series for p in s.points[-1:]
        )
        label = f"{self.y_label} against {self.x_label}: {last}"
        parts = [self._axes(), *(self._drawn(series, number) for number, series in enumerate(self.series))]
        chart = tag("svg", parts, viewBox=f"0 0 {WIDTH} {self.height}", class_="plot", role="img", aria_label=label)
        named = [(number, series) for number, series in enumerate(self.series) if series.name]
        keys = [
            tag("li", tag("svg", _mark(series, number), viewBox="-7 -7 14 14", class_="plot key"), series.name)
            for number, series in named
        ]
        legend = tag("ul", keys, class_="legend-list") if keys else None
        return tag("figure", tag("figcaption", title), chart, legend, class_=class_)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        up = (y - self._y_ticks[0]) / (self._y_ticks[-1] - self._y_ticks[0])
        bottom = self.height - BOTTOM
        return round(LEFT + x / self._end * (WIDTH - LEFT - RIGHT), 1), round(bottom - up * (bottom - TOP), 1)

    def _axes(self) -> list[Html]:
        parts = []
        for value in self._y_ticks:
            _, y = self._at(0, value)
            parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
            parts.append(tag("text", f"{value:g}", x=LEFT - 6, y=y + 3.5, class_="tick end"))
        for value in self._x_ticks:
            x, _ = self._at(value, self._y_ticks[0])
            parts.append(tag("text", f"{value:,.10g}", x=x, y=self.height - BOTTOM + 15, class_="tick middle"))
        parts.append(tag("text", self.x_label, x=WIDTH - RIGHT, y=self.height - 5, class_="tick end"))
        return parts

    def _drawn(self, series: Series, number: int) -> Html:
        """The line, the intervals and the marks of a series."""
        places = [(x + 10 * series.beside, y) for x, y in (self._at(*point[:2]) for point in series.points)]
        points = " ".join(f"{x},{y}" for x, y in places)
        line = tag("polyline", points=points, class_="path") if len(places) > 1 else None
        parts = []
        for (x, y), (value, mean, low, high) in zip(places, series.points, strict=True):
            interval = ""
            if low < high:
                (_, bottom), (_, top) = self._at(value, low), self._at(value, high)
                parts.append(tag("line", x1=x, x2=x, y1=bottom, y2=top, class_="whisker"))
                interval = f" (95 %: {low:.1f} to {high:.1f})"
            words = f"{series.name} {mean:{self.form}}{interval} at {value:,.10g}".strip()
            parts.append(tag("g", _mark(series, number, words), transform=f"translate({x},{y})"))
        return tag("g", line, parts, class_=_color(series))


def _mark(series: Series, number: int, words: str | None = None) -> Html:
    """The mark of a point: a disc for the method, another form for each other series."""
    shape = DOT if _color(series) == "method" else MARKS[number % len(MARKS)]
    told = tag("title", words) if words else None
    return tag("path", told, d=shape, class_=f"mark {_color(series)}{' hollow' if series.hollow else ''}")


def _color(series: Series) -> str:
    """The method of the paper alone has a colour, and a series without a name."""
    return "method" if series.name.startswith("SWEET") or not series.name else "other"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` + 1 round numbers in equal steps, the first at most `low` and the last at least `high`."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if fits(low, high, power * factor, most))
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [round(number * step, 12) for number in range(first, last + 1)]


def fits(low: float, high: float, step: float, most: int) -> bool:
    """Whether `most` steps of this size cover the range from one of its multiples."""
    return math.ceil(high / step - 1e-9) - math.floor(low / step + 1e-9) <= most


def interval_bar(estimate: Mapping[str, float], label: str) -> Html:
    """A share {mean, low, high} on a line from 0 to 1."""
    mean, low, high = (round(4 + 132 * max(0.0, min(1.0, estimate[key])), 1) for key in ("mean", "low", "high"))
    parts = [
        tag("line", x1=4, x2=136, y1=9, y2=9, class_="axis"),
        tag("rect", x=low, width=max(2, round(high - low, 1)), y=5, height=8, rx=4, class_="range"),
        tag("circle", cx=mean, cy=9, r=2.5, class_="dot"),
    ]
    return tag("svg", parts, viewBox="0 0 140 18", width=140, height=18, class_="chart", role="img", aria_label=label)
