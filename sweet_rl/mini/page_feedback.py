"""What a client says about a drawn page: the most striking one or two differences, or that there is none."""

from __future__ import annotations

import random

from sweet_rl.mini.page_differences import differences
from sweet_rl.mini.page_elements import Look

NAMED_AT_ONCE = 2
SATISFIED = (
    "That looks just like what I have in mind.",
    "Perfect, this is what I wanted.",
    "I see no difference any more.",
)


def feedback(wanted: Look, drawn: Look, rng: random.Random) -> str:
    """Name the one or two most striking differences of two pages, or say that there is none."""
    found = differences(wanted, drawn)
    if not found:
        return rng.choice(SATISFIED)
    named = found[: rng.randint(1, NAMED_AT_ONCE)]
    return " ".join(rng.choice(difference.sentences) for difference in named)
