"""An agent that does all that the designer says: are the words enough to reach the reference page?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lab.pages.color_names import color_name
from lab.pages.pages import BOXES, COLORS, PALE, STRONG, Page

NUMBERS = {"two": 2, "three": 3}
PLACES = {"on the left": "left", "on the right": "right", "across the whole page": "top"}
LEAVE_OUT = re.compile(r"leave out|should be no ")


def _by_name(colors: Sequence[str]) -> dict[str, str]:
    return {color_name((*COLORS[color], 1.0)): color for color in colors}


STRONG_BY_NAME, PALE_BY_NAME, BOX_BY_NAME = _by_name(STRONG), _by_name(PALE), _by_name(BOXES)


def sentences(words: str) -> list[str]:
    """Split feedback at its full stops."""
    return [part for part in re.split(r"(?<=[.])\s+(?=[A-Z])", words.strip()) if part]


def apply_feedback(page: Page, words: str) -> Page:
    """Return `page` changed as each sentence of the feedback asks; an unknown sentence changes nothing."""
    for sentence in sentences(words):
        page = _apply(page, sentence)
    return page


def _apply(page: Page, sentence: str) -> Page:
    out = bool(LEAVE_OUT.search(sentence))
    plain = re.sub(r'"[^"]*"', '""', sentence).split(" instead of ")[0].split(", not ")[0]
    if "background" in plain:
        return _colored(page, "background", plain, PALE_BY_NAME)
    if "title" in plain:
        read = re.search(r'should read "([^"]*)"', sentence)
        return replace(page, heading=read[1]) if read else page
    if "picture" in plain:
        place = next((value for words, value in PLACES.items() if words in plain), page.image)
        return replace(page, image="none" if out else place)
    for part in ("header", "button", "footer"):
        if re.search(rf"\b{part}\b", plain):
            return _with_part(page, part, "none") if out else _colored(page, part, plain, STRONG_BY_NAME)
    if "boxes" in plain:
        number = next((value for word, value in NUMBERS.items() if re.search(rf"\b{word}\b", plain)), page.boxes)
        return replace(_colored(page, "box_color", plain, BOX_BY_NAME), boxes=0 if out else number).settled()
    return page


def _colored(page: Page, part: str, sentence: str, known: dict[str, str]) -> Page:
    """Give a part the color that the sentence names last; the longest name counts (`light blue`, not `blue`)."""
    found = [(m.end(), len(name), name) for name in known for m in re.finditer(rf"\b{name}\b", sentence)]
    return _with_part(page, part, known[max(found)[2]]) if found else page


def _with_part(page: Page, part: str, value: Any) -> Page:
    return replace(page, **{part: value})
