"""Alike things side by side on a page as one, and which of them answer to each other on two pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from sweet_rl.mini.color_names import color_distance
from sweet_rl.mini.page_elements import Element, Look

MEANT = {"header", "nav", "footer", "aside", "form"}
"""Tags that say what an area is for."""
COMPARED = 120  # characters of a text
SAME = 0.45  # likeness below which two things are not taken for the same one


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
        return Element(**{**self.first.__dict__, "x": left, "y": top, "width": right - left, "height": bottom - top})


def groups_of(look: Look) -> list[Group]:
    """Every element of a page once, rows as one group; areas and pictures know the texts that stand in them."""
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
    """0 to 1; two empty texts are alike. Of long texts the beginnings are compared."""
    return 1.0 if one == other else _matcher(one, other).ratio()


def _matcher(one: str, other: str) -> SequenceMatcher:
    return SequenceMatcher(None, one[:COMPARED].lower(), other[:COMPARED].lower(), autojunk=False)


def _surely_unlike(one: str, other: str) -> bool:
    """Whether the likeness is below a half for certain, told in a fraction of the time."""
    matcher = _matcher(one, other)
    return one != other and (matcher.real_quick_ratio() < 0.5 or matcher.quick_ratio() < 0.5)


def matched(wanted: Sequence[Group], drawn: Sequence[Group], looks: tuple[Look, Look]) -> list[tuple[int, int]]:
    """Pairs of indices of groups that answer to each other, the likeliest first taken; each at most once."""
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
    """1 at the same place, measured from the top or from the bottom of the two pages, whichever is nearer."""
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
