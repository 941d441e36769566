"""Names of colors in a client's words, and how different two colors look."""

from __future__ import annotations

from functools import lru_cache

Color = tuple[int, int, int, float]
"""Red, green, blue (0 to 255) and opacity (0 to 1)."""

NAMED: tuple[tuple[str, tuple[int, int, int]], ...] = (
    ("white", (255, 255, 255)),
    ("very light grey", (243, 244, 246)),
    ("light grey", (222, 224, 228)),
    ("grey", (156, 163, 175)),
    ("grey", (115, 120, 130)),
    ("dark grey", (72, 80, 92)),
    ("dark grey", (35, 42, 54)),
    ("black", (10, 10, 12)),
    ("cream", (255, 247, 218)),
    ("beige", (232, 216, 180)),
    ("yellow", (250, 214, 40)),
    ("light yellow", (254, 240, 138)),
    ("orange", (245, 140, 25)),
    ("light orange", (250, 185, 120)),
    ("brown", (140, 80, 35)),
    ("red", (239, 68, 68)),
    ("red", (220, 25, 45)),
    ("light red", (252, 165, 165)),
    ("dark red", (140, 20, 25)),
    ("pink", (236, 72, 153)),
    ("light pink", (252, 205, 225)),
    ("purple", (139, 92, 246)),
    ("purple", (128, 20, 150)),
    ("light purple", (205, 180, 245)),
    ("dark purple", (65, 15, 100)),
    ("indigo", (90, 80, 220)),
    ("blue", (59, 130, 246)),
    ("blue", (37, 99, 235)),
    ("blue", (0, 0, 255)),
    ("light blue", (185, 218, 250)),
    ("dark blue", (20, 30, 125)),
    ("teal", (20, 150, 145)),
    ("light teal", (150, 235, 220)),
    ("green", (16, 185, 129)),
    ("green", (30, 145, 60)),
    ("light green", (170, 240, 185)),
    ("dark green", (10, 75, 45)),
)
"""Everyday names; some names stand for several colors."""


def over(top: Color | None, below: Color) -> Color:
    """The color that is seen if `top` is painted over the opaque color `below`."""
    if top is None:
        return below
    red, green, blue = (round(t * top[3] + b * (1 - top[3])) for t, b in zip(top[:3], below[:3], strict=True))
    return (red, green, blue, 1.0)


@lru_cache(maxsize=4096)
def _lab(rgb: tuple[int, int, int]) -> tuple[float, float, float]:
    """CIE L*a*b* (D65) of an sRGB color."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (value / 255 for value in rgb)]
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.95047, 1.0, 1.08883)
    xyz = [sum(a * b for a, b in zip(row, linear, strict=True)) / w for row, w in zip(rows, white, strict=True)]
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return (116 * y - 16, 500 * (x - y), 200 * (y - z))


def color_distance(one: Color, other: Color) -> float:
    """Distance in L*a*b* over 100, at most 1: 0 is the same color, white to black is 1."""
    pairs = zip(_lab(one[:3]), _lab(other[:3]), strict=True)
    return min(1.0, sum((a - b) ** 2 for a, b in pairs) ** 0.5 / 100)


@lru_cache(maxsize=4096)
def _nearest(rgb: tuple[int, int, int]) -> str:
    return min((color_distance((*rgb, 1.0), (*known, 1.0)), name) for name, known in NAMED)[1]


def color_name(color: Color) -> str:
    """The everyday name whose color is nearest."""
    return _nearest(color[:3])


def wanted_color(wanted: Color, drawn: Color) -> str:
    """The wanted color in words, for someone who drew `drawn`: its name, or lighter/darker if both have one name."""
    name = color_name(wanted)
    if name != color_name(drawn):
        return name
    plain = name.removeprefix("very ").removeprefix("light ").removeprefix("dark ")
    return f"a {'lighter' if _lab(wanted[:3])[0] > _lab(drawn[:3])[0] else 'darker'} {plain}"
