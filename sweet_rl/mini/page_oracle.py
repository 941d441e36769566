"""What a turn of a mini page dialogue does to the page: which parts it repairs, and which it spoils.

The reference page is known, so the credit of a turn is known too. Only measurements use this; no agent, designer or
critic sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.humans.vision import newest_draft
from sweet_rl.mini.pages import PARTS, Page, read_page
from sweet_rl.rewards.html import extract_page


@dataclass(frozen=True)
class Effect:
    """What a turn does.

    repaired, spoiled: parts that it makes as the reference has them, or no longer so. wrong: parts that are not as the
    reference has them afterwards (all of them where there is no mini page). ends: whether it hands the page in.
    """

    repaired: tuple[str, ...]
    spoiled: tuple[str, ...]
    wrong: tuple[str, ...]
    ends: bool


def wrong_parts(reference: Page, html: str | None) -> set[str]:
    """Return the parts of a page that are not as the reference has them."""
    page = None if html is None else read_page(html)
    if page is None or page.site != reference.site:
        return set(PARTS)
    return {part for part in PARTS if getattr(page, part) != getattr(reference, part)}


def effect(reference: Page, dialogue: list[dict], turn: str) -> Effect:
    """Tell what an agent's next `turn` after `dialogue` does; the first page repairs all that is right on it."""
    before = wrong_parts(reference, newest_draft(dialogue))
    after = wrong_parts(reference, extract_page(turn) or newest_draft(dialogue))

    def ordered(parts: set[str]) -> tuple[str, ...]:
        return tuple(part for part in PARTS if part in parts)

    return Effect(ordered(before - after), ordered(after - before), ordered(after), ANSWER_MARKER in turn)


def usefulness(reference: Page, dialogue: list[dict], turn: str) -> str:
    """Judge an agent's next `turn` after `dialogue` by the reference page.

    Returns one of `complete` (hands in the reference page), `early` (hands in another one), `repairs` (repairs more
    than it spoils), `spoils` (the other way round), `idle` (neither).
    """
    found = effect(reference, dialogue, turn)
    if found.ends:
        return "early" if found.wrong else "complete"
    net = len(found.repaired) - len(found.spoiled)
    return "repairs" if net > 0 else "spoils" if net < 0 else "idle"
