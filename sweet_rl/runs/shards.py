"""`--shard i/n`: the part of the work that one of n processes does. The concatenated outputs of all shards are the
records of one run over everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from sweet_rl.errors import UserError

Item = TypeVar("Item")


def shard_of(items: Sequence[Item], shard: str | None) -> Sequence[Item]:
    """One of n contiguous parts of `items`, whose sizes differ by at most one.

    Args:
        items: all of the work.
        shard: "i/n" with i from 1 to n; None for everything.

    Raises:
        UserError: any other text.
    """
    if shard is None:
        return items
    numbers = re.fullmatch(r"(\d+)/(\d+)", shard.strip())
    number, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= count:
        raise UserError(f"--shard is {shard!r}; it must be i/n with i from 1 to n, for example 1/4, 2/4, 3/4 and 4/4.")
    return items[len(items) * (number - 1) // count : len(items) * number // count]
