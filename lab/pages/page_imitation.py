"""Dialogues that the tiny page agent learns to imitate: with well-formed pages, and bad attention to feedback.

The imitated agent draws at random what it was not told. It follows all sentences of the feedback, only the first, or
none; it spoils parts that were right, and it hands in its page too early. In a share of the dialogues it sees the
reference page first, as the critic will (informed dialogues), and draws mostly that page from the start.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.pages.color_names import color_name
from lab.pages.page_differences import SATISFIED, feedback
from lab.pages.page_tasks import describe, draw_page, mentioned_parts
from lab.pages.pages import BOXES, COLORS, PALE, PARTS, SITE_BY_NAME, SITES, STRONG, Page, layout
from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.method.privileged_information import hint_text

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


MAX_TURNS = 6
INFORMED_SHARE = 0.35


@dataclass(frozen=True)
class Habits:
    """How an imitated agent behaves, as probabilities per turn.

    Attributes:
        known: draws a part of its first page as it is in the reference.
        listen: follows all sentences of the feedback.
        half: follows only the first sentence; otherwise it follows none.
        spoil: changes another part at random.
        early: hands in its page although the client is not satisfied.
        finish: hands in its page when the client is satisfied.
        last: hands in its page in the last turn.
    """

    known: float
    listen: float
    half: float
    spoil: float
    early: float
    finish: float
    last: float


BAD = Habits(known=0.0, listen=0.4, half=0.25, spoil=0.3, early=0.12, finish=0.7, last=0.8)
INFORMED = Habits(known=0.85, listen=0.85, half=0.1, spoil=0.03, early=0.04, finish=0.9, last=0.97)


def first_page(reference: Page, mentioned: list[str], known: float, rng: random.Random) -> Page:
    """Draw the imitated agent's first page: the mentioned parts are on it, the rest is random."""
    page = draw_page(SITE_BY_NAME[reference.site], rng)
    while not all(getattr(page, part) not in ("none", 0) for part in mentioned):
        page = draw_page(SITE_BY_NAME[reference.site], rng)
    return _towards(page, reference, known, rng)


def _towards(page: Page, reference: Page, chance: float, rng: random.Random) -> Page:
    right = {part: getattr(reference, part) for part in PARTS if rng.random() < chance}
    return replace(page, **right).settled()


def next_page(page: Page, words: str, habits: Habits, rng: random.Random) -> Page:
    """Draw the imitated agent's page after the client's `words` about its last one."""
    if words in SATISFIED:
        return page
    draw = rng.random()
    if draw < habits.listen:
        page = apply_feedback(page, words)
    elif draw < habits.listen + habits.half:
        page = apply_feedback(page, sentences(words)[0])
    if rng.random() < habits.spoil:
        part = rng.choice(PARTS)
        page = replace(page, **{part: getattr(draw_page(SITE_BY_NAME[page.site], rng), part)}).settled()
    return page


def imitation_dialogue(reference: Page, informed: bool, rng: random.Random) -> list[dict]:
    """Return the messages of one imitated dialogue; the last one hands in the page."""
    habits = INFORMED if informed else BAD
    mentioned = mentioned_parts(reference, rng)
    messages = [{"role": "user", "content": describe(SITE_BY_NAME[reference.site], mentioned, rng)}]
    wanted = layout(reference)
    page, words = first_page(reference, mentioned, habits.known, rng), ""
    for turn in range(1, MAX_TURNS + 1):
        if turn > 1:
            page = next_page(page, words, habits, rng)
        answers = rng.random() < (habits.finish if words in SATISFIED else habits.early)
        if answers or (turn == MAX_TURNS and rng.random() < habits.last):
            messages.append({"role": "assistant", "content": f"{ANSWER_MARKER}\n{page.html()}"})
            return messages
        messages.append({"role": "assistant", "content": page.html()})
        if turn < MAX_TURNS:
            words = feedback(wanted, layout(page), rng)
            messages.append({"role": "user", "content": words})
    return messages


def imitation_stream(seed: int, informed_share: float = INFORMED_SHARE) -> Iterator[tuple[str, list[dict]]]:
    """Yield endlessly (hint, messages) of imitated dialogues; the hint is empty in uninformed ones."""
    rng = random.Random(f"page imitation {seed}")
    while True:
        reference = draw_page(rng.choice(SITES), rng)
        informed = rng.random() < informed_share
        hint = hint_text(reference.html()) if informed else ""
        yield hint, imitation_dialogue(reference, informed, rng)
