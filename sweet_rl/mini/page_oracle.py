"""What a turn of a mini page dialogue does to the page: which parts it repairs, and which it spoils.

The reference page is known, so the credit of a turn is known too. Only measurements use this; no agent, designer or
critic sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.environments.code import ANSWER_MARKER
from sweet_rl.environments.html import newest_draft
from sweet_rl.grading.html import extract_page
from sweet_rl.mini.pages import PARTS, Page, read_page


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


def effect(ground_truth: str, dialogue: list[dict], turn: str) -> Effect:
    """Judge an agent's next `turn` after `dialogue`. Raises ValueError where the reference is no mini page."""
    reference = read_page(ground_truth)
    if reference is None:
        raise ValueError("the reference page is no mini page.")
    before = wrong_parts(reference, newest_draft(dialogue))
    after = wrong_parts(reference, extract_page(turn) or newest_draft(dialogue))

    def ordered(parts: set[str]) -> tuple[str, ...]:
        return tuple(part for part in PARTS if part in parts)

    return Effect(ordered(before - after), ordered(after - before), ordered(after), ANSWER_MARKER in turn)
