"""Oracle of the mini page tasks: which parts of the page each turn of the agent repairs, and which it spoils.

The reference page is known, so the credit of a turn is known too. Only the viewer uses the oracle; no
agent, designer or critic sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.pages.pages import PARTS, Page, read_page
from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.dialogues.frontend.extract_page import extract_page
from sweet_rl.dialogues.frontend.vision_human import newest_draft
from sweet_rl.runs.records import Message, Task


@dataclass(frozen=True)
class Effect:
    """What a turn does to the page.

    Attributes:
        repaired: parts that differ from the reference before the turn and not after it.
        spoiled: parts that differ from the reference after the turn and not before it.
        wrong: parts that differ from the reference after the turn; all parts if there is no mini page.
        ends: whether the turn hands the page in.
    """

    repaired: tuple[str, ...]
    spoiled: tuple[str, ...]
    wrong: tuple[str, ...]
    ends: bool


def wrong_parts(reference: Page, html: str | None) -> set[str]:
    """Return the parts of a page that differ from the reference; all of them if `html` is not a page of this site."""
    page = None if html is None else read_page(html)
    if page is None or page.site != reference.site:
        return set(PARTS)
    return {part for part in PARTS if getattr(page, part) != getattr(reference, part)}


def effect(reference: Page, dialogue: Sequence[Message], turn: str) -> Effect:
    """Return what a turn of the agent after `dialogue` does; a first page repairs every part that is right on it."""
    before = wrong_parts(reference, newest_draft(dialogue))
    after = wrong_parts(reference, extract_page(turn) or newest_draft(dialogue))

    def ordered(parts: set[str]) -> tuple[str, ...]:
        return tuple(part for part in PARTS if part in parts)

    return Effect(ordered(before - after), ordered(after - before), ordered(after), ANSWER_MARKER in turn)


def usefulness(reference: Page, dialogue: Sequence[Message], turn: str) -> str:
    """Judge a turn of the agent by the reference page.

    Args:
        reference: the page that the client wants.
        dialogue: messages before the turn.
        turn: text of the turn.

    Returns:
        `complete` (hands in the reference page), `early` (hands in another page), `repairs` (repairs more parts than it
        spoils), `spoils` (spoils more than it repairs) or `idle` (neither).
    """
    found = effect(reference, dialogue, turn)
    if found.ends:
        return "early" if found.wrong else "complete"
    net = len(found.repaired) - len(found.spoiled)
    return "repairs" if net > 0 else "spoils" if net < 0 else "idle"


def label_turn(task: Task, messages_before: Sequence[Message], text: str) -> str | None:
    """The oracle's word on a turn of the agent (see `usefulness`); None if `task` is not a mini page task."""
    reference = read_page(task.ground_truth)
    return None if reference is None else usefulness(reference, messages_before, text)
