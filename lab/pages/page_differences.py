"""Differences between the page that a client wants and the page that was drawn, in the client's words.

The weight of a difference is the share of the page that it concerns times its size there; the largest comes first.
Elements that only moved down, because something above them is missing, do not count as different.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.pages.color_names import color_distance, color_name, wanted_color
from lab.pages.page_elements import Element, Group, Look, groups_of, matched, text_likeness

COUNTS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
TAGS = {"header": "header", "nav": "navigation bar", "footer": "footer", "aside": "sidebar", "form": "form"}
NOUNS = {"picture": ("picture", "pictures"), "button": ("button", "buttons"), "field": ("input field", "input fields")}
SMALL = "a small part of the page"
SHARES = ((0.18, SMALL), (0.29, "a quarter of the page"), (0.42, "a third of the page"),
          (0.58, "half the page"), (0.71, "two thirds of the page"), (0.88, "three quarters of the page"))  # fmt: skip
MAX_QUOTE = 80


def count_word(count: int) -> str:
    return COUNTS.get(count, str(count))


def quoted(text: str) -> str:
    """A text in quotation marks; a long one is cut after a whole word."""
    if len(text) > MAX_QUOTE:
        text = text[:MAX_QUOTE].rsplit(" ", 1)[0] + " ..."
    return '"' + text.replace('"', "'") + '"'


def width_words(element: Element, look: Look) -> str:
    """The width of an element in words, as a part of the page."""
    share = element.width / max(look.width, 1)
    return next((words for limit, words in SHARES if share < limit), "the whole page")


def side(element: Element, look: Look) -> str:
    """The horizontal position: `left`, `right`, `middle`, or `whole` if the element has the width of the page."""
    if element.width > 0.88 * look.width:
        return "whole"
    place = element.center[0] / max(look.width, 1)
    return "left" if place < 0.42 else "right" if place > 0.58 else "middle"


SIDES = {"left": "on the left", "right": "on the right", "middle": "in the middle", "whole": "across the whole page"}


def height_words(element: Element, look: Look) -> str:
    """The vertical position of an element in words."""
    place = element.center[1] / max(look.height, 1)
    return "at the top" if place < 0.25 else "at the bottom" if place > 0.75 else "halfway down"


def noun(group: Group, look: Look, text: str = "") -> str:
    """The name of a group without an article: `header`, `picture`, `three boxes`, `box with "Bread"`."""
    one = group.first
    many = group.count > 1
    if one.kind == "text":
        return "title" if _is_title(one, look) else "text"
    if one.kind in NOUNS:
        name = NOUNS[one.kind][many]
        if one.kind == "button" and one.text and not many:
            name += f" {quoted(one.text)}"
    elif one.tag in TAGS and not many:
        name = TAGS[one.tag]
    else:
        name = _area_name(one, look, many) + (f" with {quoted(text)}" if text and not many else "")
    return f"{count_word(group.count)} {name}" if many else name


def _area_name(one: Element, look: Look, many: bool) -> str:
    if many or one.width < 0.88 * look.width:
        return "boxes" if many else "box"
    low = one.height < 0.3 * look.height
    if low and one.y < 0.02 * look.height:
        return "header"
    if low and one.y + one.height > 0.98 * look.height:
        return "footer"
    return "section"


def _is_title(one: Element, look: Look) -> bool:
    """Whether a text is a heading or the only one in the largest font of its page."""
    sizes = [element.font_size for element in look.of_kind("text")]
    return one.tag == "h1" or (bool(sizes) and one.font_size == max(sizes) and sizes.count(one.font_size) == 1)


NOTICED = 0.0006
"""Smallest weight that a client notices."""
COLOR_STEP = 0.06


@dataclass(frozen=True)
class Difference:
    """One difference: its weight, and sentences of which each describes it."""

    weight: float
    sentences: tuple[str, ...]


def differences(wanted: Look, drawn: Look) -> list[Difference]:
    """Return what has to change in `drawn`, the largest difference first; empty if nothing is noticed."""
    found = [*_page(wanted, drawn)]
    ours, theirs = groups_of(wanted), groups_of(drawn)
    pairs = matched(ours, theirs, (wanted, drawn))
    for i, j in pairs:
        found += _changes(ours[i], theirs[j], wanted, drawn)
    missing = [group for i, group in enumerate(ours) if i not in {i for i, _ in pairs}]
    extra = [group for j, group in enumerate(theirs) if j not in {j for _, j in pairs}]
    uneven = [(ours[i], theirs[j]) for i, j in pairs if ours[i].count != theirs[j].count]
    found += [_missing(group, wanted) for group in _outermost(missing, [one for one, _ in uneven])]
    found += [_extra(group, drawn) for group in _outermost(extra, [other for _, other in uneven])]
    noticed = [difference for difference in found if difference.weight >= NOTICED]
    if not noticed and not 0.85 < wanted.height / max(drawn.height, 1) < 1.18:
        longer = "longer" if wanted.height > drawn.height else "shorter"
        noticed.append(Difference(0.01, (f"The whole page should be {longer}.",)))
    return sorted(noticed, key=lambda difference: -difference.weight)


def _page(wanted: Look, drawn: Look) -> Iterator[Difference]:
    distance = color_distance(wanted.background, drawn.background)
    if distance > COLOR_STEP / 2:
        covered = sum(wanted.share(element) for element in wanted.of_kind("area", "picture"))
        new, old = wanted_color(wanted.background, drawn.background), color_name(drawn.background)
        yield Difference(
            max(0.2, 1 - covered) * distance,
            (
                f"The background of the page should be {new} instead of {old}.",
                f"Please make the background of the whole page {new}.",
            ),
        )


def _changes(ours: Group, theirs: Group, wanted: Look, drawn: Look) -> Iterator[Difference]:
    kind = ours.first.kind
    if kind == "text":
        yield from _text_changes(ours.first, theirs.first, wanted, drawn)
        return
    name = noun(theirs, drawn, theirs.texts[0] if theirs.texts else "")
    if ours.count != theirs.count:
        yield _count_change(ours, theirs, wanted)
    elif kind == "button" and ours.first.text != theirs.first.text and ours.count == 1:
        weight = wanted.share(ours.first) * (1 - text_likeness(ours.first.text, theirs.first.text))
        yield Difference(weight, (f"The {name} should read {quoted(ours.first.text)}.",))
    if kind != "picture":
        yield from _color_change(ours, theirs, name, wanted)
    if kind in ("picture", "area") and ours.count == theirs.count:
        yield from _place_change(ours.span, theirs.span, name, wanted, drawn, ours.count > 1)
    elif kind == "button" and ours.count == theirs.count:
        yield from _moved(ours.span, theirs.span, name, wanted, drawn)


def _text_changes(ours: Element, theirs: Element, wanted: Look, drawn: Look) -> Iterator[Difference]:
    share = _ink(ours, wanted)
    name = noun(Group((theirs,)), drawn)
    called = name if name == "title" else f"{name} {quoted(theirs.text)}"
    alike = text_likeness(ours.text, theirs.text)
    if ours.text != theirs.text:
        sentences = [f"The {called} should read {quoted(ours.text)}."]
        if name == "title":
            sentences.append(f"The title should read {quoted(ours.text)}, not {quoted(theirs.text)}.")
        yield Difference(share * max(0.1, 1 - alike), tuple(sentences))
    distance = color_distance(ours.color, theirs.color)
    if distance > 2 * COLOR_STEP:
        new = wanted_color(ours.color, theirs.color)
        yield Difference(0.4 * share * distance, (f"The {called} should be written in {new}.",))
    larger = ours.font_size / max(theirs.font_size, 1)
    if not 0.78 < larger < 1.28:
        size = "larger" if larger > 1 else "smaller"
        yield Difference(0.5 * share * abs(larger - 1), (f"The {called} should be {size}.",))


def _ink(text: Element, look: Look) -> float:
    """The share of the page that the letters of a text cover."""
    letters = 0.55 * text.font_size * len(text.text) * 1.3 * text.font_size
    return min(look.share(text), letters / max(look.width * look.height, 1)) if text.font_size else look.share(text)


def _count_change(ours: Group, theirs: Group, wanted: Look) -> Difference:
    things = NOUNS.get(ours.first.kind, ("box", "boxes"))[ours.count > 1]
    new, old = count_word(ours.count), count_word(theirs.count)
    row = " side by side" if ours.count > 1 else ""
    return Difference(
        wanted.share(ours.first) * abs(ours.count - theirs.count),
        (f"There should be {new} {things}{row} instead of {old}.", f"I want {new} {things}{row}, not {old}."),
    )


def _color_change(ours: Group, theirs: Group, name: str, wanted: Look) -> Iterator[Difference]:
    distance = color_distance(ours.first.background, theirs.first.background)
    if distance > COLOR_STEP:
        new, old = wanted_color(ours.first.background, theirs.first.background), color_name(theirs.first.background)
        share = min(1.0, sum(wanted.share(member) for member in ours.members))
        yield Difference(
            share * distance, (f"The {name} should be {new} instead of {old}.", f"Please make the {name} {new}.")
        )


def _place_change(
    ours: Element, theirs: Element, name: str, wanted: Look, drawn: Look, many: bool
) -> Iterator[Difference]:
    new, old = side(ours, wanted), side(theirs, drawn)
    wide, narrow = ours.width / wanted.width, theirs.width / drawn.width
    share = wanted.share(ours)
    if new != old and (abs(wide - narrow) > 0.15 or "whole" in (new, old)):
        place = f"{SIDES[new]}, about {width_words(ours, wanted)} wide," if new != "whole" else SIDES[new]
        yield Difference(
            share * max(0.3, abs(wide - narrow)), (f"The {name} should be {place} instead of {SIDES[old]}.",)
        )
        return
    yield from _moved(ours, theirs, name, wanted, drawn)
    if new == old and abs(wide - narrow) > 0.15:
        yield Difference(share * abs(wide - narrow), (f"The {name} should be about {width_words(ours, wanted)} wide.",))
    taller = ours.height / max(theirs.height, 1)
    if not many and not 0.7 < taller < 1.4 and abs(ours.height - theirs.height) > 0.06 * wanted.height:
        size = "taller" if taller > 1 else "less tall"
        yield Difference(share * min(1.0, abs(taller - 1)) * 0.5, (f"The {name} should be {size}.",))


def _moved(ours: Element, theirs: Element, name: str, wanted: Look, drawn: Look) -> Iterator[Difference]:
    new, old = side(ours, wanted), side(theirs, drawn)
    if new != old and abs(ours.center[0] / wanted.width - theirs.center[0] / drawn.width) > 0.12:
        yield Difference(
            wanted.share(ours) * 0.6,
            (f"The {name} should be {SIDES[new]} instead of {SIDES[old]}.", f"Please put the {name} {SIDES[new]}."),
        )


def _outermost(groups: Sequence[Group], reported: Sequence[Group]) -> list[Group]:
    """Leave out groups that lie inside another of the groups, or inside one of `reported`."""
    areas = [group for group in [*groups, *reported] if group.first.kind == "area"]
    return [
        group
        for group in groups
        if not any(area is not group and any(m.holds(group.first) for m in area.members) for area in areas)
    ]


def _missing(group: Group, look: Look) -> Difference:
    one = group.first
    if one.kind == "text":
        called = f"{noun(group, look)} {quoted(one.text)}"
        return Difference(0.7 * _ink(one, look), (f"The {called} is missing {height_words(one, look)}.",))
    weight = min(1.0, sum(look.share(member) for member in group.members))
    name = noun(group, look, group.texts[0] if group.texts else "")
    where = SIDES[side(group.span, look)]
    if one.kind != "picture":
        weight *= 0.3 + 0.5 * min(1.0, 2 * color_distance(one.background, one.under))
        name = f"{color_name(one.background)} {name}" if group.count == 1 else _colored(name, one)
    elif width_words(one, look) == SMALL:
        name = f"small {name}" if group.count == 1 else name
    elif group.count == 1 and side(one, look) != "whole":
        where += f", about {width_words(one, look)} wide"
    row = " side by side" if group.count > 1 else ""
    be = "are" if group.count > 1 else "is"
    a = "" if group.count > 1 else ("an " if name[0] in "aeio" else "a ")
    height = f" {height_words(group.span, look)}" if one.tag not in ("header", "footer") else ""
    return Difference(
        weight,
        (
            f"There {be} {a}{name}{row} missing{height}, {where}.",
            f"I miss {a}{name}{row}{height}, {where}.",
        ),
    )


def _colored(name: str, one: Element) -> str:
    """`three boxes` -> `three yellow boxes`."""
    count, rest = name.split(" ", 1)
    return f"{count} {color_name(one.background)} {rest}"


def _extra(group: Group, look: Look) -> Difference:
    one = group.first
    name = noun(group, look, group.texts[0] if group.texts else "")
    if one.kind == "text":
        return Difference(0.5 * _ink(one, look), (f"Please leave out the {name} {quoted(one.text)}.",))
    weight = min(1.0, sum(look.share(member) for member in group.members)) * 0.7
    where = f" {SIDES[side(group.span, look)]}" if one.kind == "picture" else ""
    return Difference(weight, (f"Please leave out the {name}{where}.", f"There should be no {_bare(name)}{where}."))


def _bare(name: str) -> str:
    """`three boxes` -> `boxes`."""
    first, _, rest = name.partition(" ")
    return rest if first in COUNTS.values() or first.isdigit() else name


MOST_NAMED = 2  # differences in one reply
SATISFIED = (
    "That looks just like what I have in mind.",
    "Perfect, this is what I wanted.",
    "I see no difference any more.",
)


def feedback(wanted: Look, drawn: Look, rng: random.Random) -> str:
    """Name the largest one or two differences of two pages, or say that there is none."""
    found = differences(wanted, drawn)
    if not found:
        return rng.choice(SATISFIED)
    named = found[: rng.randint(1, MOST_NAMED)]
    return " ".join(rng.choice(difference.sentences) for difference in named)
