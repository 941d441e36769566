"""What there is to see on a page: colored areas, pictures, texts, buttons and fields, from the browser's boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweet_rl.mini.color_names import Color, color_distance, over

WHITE: Color = (255, 255, 255, 1.0)
PICTURES = {"img", "svg", "video", "canvas", "picture", "iframe"}
FIELDS = {"input", "textarea", "select"}
MOST_ELEMENTS = 120  # of a page with more only the largest are looked at
VISIBLE_STEP = 0.02  # color_distance below which an area is not told from what lies under it


@dataclass(frozen=True)
class Element:
    """One thing that is seen.

    kind: "area", "picture", "text", "button" or "field". x, y, width, height: pixels from the page's top left.
    color: of the text; background: as seen, with what lies under it; under: what lies under it.
    """

    kind: str
    tag: str
    text: str
    x: float
    y: float
    width: float
    height: float
    color: Color
    background: Color
    under: Color
    font_size: float

    @property
    def area(self) -> float:
        return self.width * self.height

    @property
    def center(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    def holds(self, other: Element, slack: float = 2.0) -> bool:
        """Whether `other` lies within this element."""
        return (
            self.x - slack <= other.x
            and self.y - slack <= other.y
            and other.x + other.width <= self.x + self.width + slack
            and other.y + other.height <= self.y + self.height + slack
        )


@dataclass(frozen=True)
class Look:
    """A page as it is seen: its size in pixels, its background, and its elements in the order of painting."""

    width: float
    height: float
    background: Color
    elements: tuple[Element, ...]

    def of_kind(self, *kinds: str) -> list[Element]:
        return [element for element in self.elements if element.kind in kinds]

    def share(self, element: Element) -> float:
        """The part of the page that an element covers, 0 to 1."""
        return min(1.0, element.area / max(self.width * self.height, 1.0))


def look_at(boxes: Sequence[dict], width: float, height: float) -> Look:
    """Read the boxes of a page drawn with its layout (`Rendered.boxes`)."""
    background, elements, painted = WHITE, [], []
    for box in boxes:
        tag, text = box["tag"].lower(), " ".join(box["text"].split())
        x, y, w, h = box["x"], box["y"], box["width"], box["height"]
        own = box["background"]
        if tag in ("html", "body"):
            if own is not None and own[3] > 0:
                background = over(own, background)
            if not text:
                continue
        if w < 2 or h < 2 or x + w <= 0 or y + h <= 0 or x >= width or y >= height:
            continue
        under = _under(painted, x + w / 2, y + h / 2, background)
        seen = over(own, under) if tag not in ("html", "body") else background
        color = over(box["color"] or (0, 0, 0, 1.0), seen)
        differs = color_distance(seen, under) > VISIBLE_STEP
        kind = _kind(tag, text, box, differs)
        if differs:
            painted.append((x, y, w, h, seen))
        if kind is None:
            continue
        size = box["font_size"]
        elements.append(Element(kind, tag, text, x, y, w, h, color, seen, under, size))
        if kind == "area" and text:
            elements.append(Element("text", tag, text, x, y, w, h, color, seen, under, size))
    if len(elements) > MOST_ELEMENTS:
        largest = sorted(range(len(elements)), key=lambda number: -elements[number].area)[:MOST_ELEMENTS]
        elements = [elements[number] for number in sorted(largest)]
    return Look(float(width), float(height), background, tuple(_labelled(elements)))


def _under(painted: list[tuple], x: float, y: float, background: Color) -> Color:
    """The color last painted at a point, as far as the last areas tell."""
    for left, top, width, height, color in reversed(painted[-MOST_ELEMENTS:]):
        if left <= x <= left + width and top <= y <= top + height:
            return color
    return background


def _kind(tag: str, text: str, box: dict, differs: bool) -> str | None:
    if tag == "button":
        return "button"
    if tag in FIELDS:
        return "field"
    if tag in PICTURES or box["image"]:
        return "picture"
    if tag == "a" and text and differs:
        return "button"
    if differs:
        return "area"
    return "text" if text else None


def _labelled(elements: list[Element]) -> list[Element]:
    """Give buttons whose label is a box of its own that label, and drop the label's box."""
    kept: list[Element] = []
    for element in elements:
        owner = next(
            (i for i, one in enumerate(kept) if one.kind == "button" and not one.text and one.holds(element)), None
        )
        if element.kind == "text" and owner is not None:
            button = kept[owner]
            kept[owner] = Element(**{**button.__dict__, "text": element.text, "color": element.color})
        else:
            kept.append(element)
    return kept
