"""Texts beyond a length: a dialogue that loses its oldest turns, never its beginning, its last turn or their markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sweet_rl.records import Part


def without_oldest_turns(parts: Sequence[Part], count: int) -> list[Part]:
    """The dialogue without the agent's `count` oldest turns and what the human replied to each.

    What stands before the first turn (BOS, reference solution, task, the turn's header) stays, and so does the
    last turn; the markup stays well formed, because a turn goes together with the text up to the next one. Turns
    are the trained parts and those marked `turn`. Raises ValueError if the dialogue has no so many to lose.
    """
    starts = turn_starts(parts)
    if not 0 <= count < max(1, len(starts)):
        raise ValueError(f"{count} turns cannot be left out of {len(starts)}: the last one stays")
    return list(parts) if count == 0 else [*parts[: starts[0]], *parts[starts[count] :]]


def turn_starts(parts: Sequence[Part]) -> list[int]:
    """Where each turn of the agent begins."""
    own = [part["train"] or part.get("turn", False) for part in parts]
    return [i for i, mine in enumerate(own) if mine and (i == 0 or not own[i - 1])]


def turns_to_leave_out(parts: Sequence[Part], length: Callable[[Sequence[Part]], int], max_len: int) -> int | None:
    """The fewest oldest turns to leave out so that `length(parts)`, in tokens, is at most max_len; None if the
    last turn alone is too long."""
    for count in range(max(1, len(turn_starts(parts)))):
        if length(without_oldest_turns(parts, count)) <= max_len:
            return count
    return None
