"""What a client sees on a page: its elements, rows of alike elements (groups), and which groups of two pages match.

Elements are colored areas, pictures, texts, buttons and fields. They are read from the boxes of the browser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache

from lab.pages.color_names import Color, color_distance, over

WHITE: Color = (255, 255, 255, 1.0)
PICTURES = {"img", "svg", "video", "canvas", "picture", "iframe"}
FIELDS = {"input", "textarea", "select"}
MOST_ELEMENTS = 120  # of a page with more elements, only the largest are compared
VISIBLE_STEP = 0.02  # smallest color_distance at which an area is visible on the color below it


@dataclass(frozen=True)
class Element:
    """One visible element of a page.

    Attributes:
        kind: Kind: "area", "picture", "text", "button" or "field".
        tag: Tag of the HTML element.
        text: Text of the HTML element.
        x: Left edge in pixels from the page's left.
        y: Top edge in pixels from the page's top.
        width: Width in pixels.
        height: Height in pixels.
        color: Color of the text.
        background: Color that is seen, painted over `under`.
        under: Color below the element.
        font_size: Font size in pixels.
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
    """A page as a client sees it: its size in pixels, its background, and its elements in the order of painting."""

    width: float
    height: float
    background: Color
    elements: tuple[Element, ...]

    def of_kind(self, *kinds: str) -> list[Element]:
        return [element for element in self.elements if element.kind in kinds]

    def share(self, element: Element) -> float:
        """The share of the page that an element covers, 0 to 1."""
        return min(1.0, element.area / max(self.width * self.height, 1.0))


def look_at(boxes: Sequence[dict], width: float, height: float) -> Look:
    """Read the boxes of a page drawn with its layout (`boxes`)."""
    background = WHITE
    elements: list[Element] = []
    painted: list[tuple] = []
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
    """The color that was painted last at a point, from the last `MOST_ELEMENTS` areas."""
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
    """Give a button whose label is an element of its own that label, and drop the label's element."""
    kept: list[Element] = []
    for element in elements:
        owner = next(
            (i for i, one in enumerate(kept) if one.kind == "button" and not one.text and one.holds(element)), None
        )
        if element.kind == "text" and owner is not None:
            button = kept[owner]
            kept[owner] = replace(button, text=element.text, color=element.color)
        else:
            kept.append(element)
    return kept


MEANT = {"header", "nav", "footer", "aside", "form"}
"""Tags that name the purpose of an area."""
COMPARED = 120  # characters of a text
SAME = 0.45  # smallest likeness of two groups that match


@dataclass(frozen=True)
class Group:
    """One element, or several of one kind and size in a row."""

    members: tuple[Element, ...]
    texts: tuple[str, ...] = ()

    @property
    def first(self) -> Element:
        return self.members[0]

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def area(self) -> float:
        return sum(member.area for member in self.members)

    @property
    def span(self) -> Element:
        """The first element, stretched over the whole row."""
        left, top = min(m.x for m in self.members), min(m.y for m in self.members)
        right = max(m.x + m.width for m in self.members)
        bottom = max(m.y + m.height for m in self.members)
        return replace(self.first, x=left, y=top, width=right - left, height=bottom - top)


def groups_of(look: Look) -> list[Group]:
    """The elements of a page as groups: one per row of alike elements, with the texts inside."""
    rows: list[list[Element]] = []
    for element in look.elements:
        row = next((row for row in rows if element.kind != "text" and _in_row(row[-1], element)), None)
        rows.append([element]) if row is None else row.append(element)
    return [Group(tuple(row), _texts_in(row, look)) for row in rows]


def _in_row(one: Element, other: Element) -> bool:
    return (
        one.kind == other.kind
        and abs(one.center[1] - other.center[1]) < 0.3 * max(one.height, other.height)
        and max(one.height, other.height) < 1.35 * min(one.height, other.height)
        and max(one.width, other.width) < (3 if one.kind == "button" else 1.35) * min(one.width, other.width)
        and (one.x + one.width <= other.x + 2 or other.x + other.width <= one.x + 2)
    )


def _texts_in(row: Sequence[Element], look: Look) -> tuple[str, ...]:
    if row[0].kind != "area":
        return tuple(element.text for element in row if element.text)
    inside = [text for text in look.of_kind("text", "button") if any(area.holds(text) for area in row)]
    return tuple(text.text for text in sorted(inside, key=lambda text: -text.font_size) if text.text)


@lru_cache(maxsize=16384)
def text_likeness(one: str, other: str) -> float:
    """Likeness of two texts, 0 to 1, by their first `COMPARED` characters; equal texts have 1."""
    return 1.0 if one == other else _matcher(one, other).ratio()


def _matcher(one: str, other: str) -> SequenceMatcher:
    return SequenceMatcher(None, one[:COMPARED].lower(), other[:COMPARED].lower(), autojunk=False)


def _surely_unlike(one: str, other: str) -> bool:
    """Whether the likeness is certainly below a half, by a fast upper bound."""
    matcher = _matcher(one, other)
    return one != other and (matcher.real_quick_ratio() < 0.5 or matcher.quick_ratio() < 0.5)


def matched(wanted: Sequence[Group], drawn: Sequence[Group], looks: tuple[Look, Look]) -> list[tuple[int, int]]:
    """Pairs of indices of groups that match, chosen greedily by their likeness; each group at most once."""
    scores = []
    for i, one in enumerate(wanted):
        for j, other in enumerate(drawn):
            if one.first.kind == other.first.kind:
                score = LIKENESS.get(one.first.kind, _shape_likeness)(one, other, looks)
                if score >= SAME:
                    scores.append((score, -i, -j))
    pairs, taken_one, taken_other = [], set(), set()
    for _, i, j in sorted(scores, reverse=True):
        if i not in taken_one and j not in taken_other:
            taken_one.add(i)
            taken_other.add(j)
            pairs.append((-i, -j))
    return pairs


def _place_likeness(one: Group, other: Group, looks: tuple[Look, Look]) -> float:
    """Likeness of two positions: 1 at the same place, measured from the top or the bottom, whichever is nearer."""
    (a, b), (look_a, look_b) = (one.span, other.span), looks
    across = abs(a.center[0] / look_a.width - b.center[0] / look_b.width)
    tallest = max(look_a.height, look_b.height)
    from_top = abs(a.y - b.y) / tallest
    from_bottom = abs((look_a.height - a.y - a.height) - (look_b.height - b.y - b.height)) / tallest
    return max(0.0, 1 - across - min(from_top, from_bottom))


def _ratio(one: float, other: float) -> float:
    return min(one, other) / max(one, other, 1e-9)


def _text_likeness(one: Group, other: Group, looks: tuple[Look, Look]) -> float:
    place = _place_likeness(one, other, looks)
    heading = one.first.tag == other.first.tag == "h1"
    if place < 0.85 and not heading and _surely_unlike(one.first.text, other.first.text):
        return 0.0
    alike = text_likeness(one.first.text, other.first.text)
    if heading:
        return 0.5 + 0.5 * alike
    if alike < 0.5 and place < 0.85:
        return 0.0
    role = 0.5 * (one.first.tag == other.first.tag) + 0.5 * _ratio(one.first.font_size, other.first.font_size) ** 2
    return 0.6 * alike + 0.2 * role + 0.25 * place


def _shape_likeness(one: Group, other: Group, looks: tuple[Look, Look]) -> float:
    a, b = one.span, other.span
    shape = _ratio(a.width / looks[0].width, b.width / looks[1].width) * _ratio(a.height, b.height) ** 0.5
    texts = text_likeness(" ".join(one.texts[:3]), " ".join(other.texts[:3])) if one.texts or other.texts else 0.5
    color = 1 - color_distance(a.background, b.background)
    likeness = 0.25 * shape + 0.3 * _place_likeness(one, other, looks) + 0.25 * texts + 0.1 * color
    if a.tag != b.tag and MEANT & {a.tag, b.tag}:
        likeness -= 0.2
    elif a.tag == b.tag and a.tag in MEANT:
        likeness += 0.15
    if one.texts and other.texts and texts < 0.35 and shape < 0.5:
        return 0.0
    return likeness - 0.3 * ((one.count == 1) != (other.count == 1))


def _picture_likeness(one: Group, other: Group, looks: tuple[Look, Look]) -> float:
    a, b = one.first, other.first
    shape = _ratio(a.width / looks[0].width, b.width / looks[1].width) * _ratio(a.height, b.height)
    if shape < (0.12 if one.count == other.count else 0.3):
        return 0.0
    return 0.45 + 0.2 * shape + 0.35 * _place_likeness(one, other, looks)


def _button_likeness(one: Group, other: Group, looks: tuple[Look, Look]) -> float:
    alike = text_likeness(" ".join(one.texts), " ".join(other.texts))
    return 0.3 + 0.4 * alike + 0.3 * _place_likeness(one, other, looks)


LIKENESS: dict[str, Callable[[Group, Group, tuple[Look, Look]], float]] = {
    "text": _text_likeness,
    "picture": _picture_likeness,
    "button": _button_likeness,
}
