"""`--shard i/n`: which part of the work is this process's own. The outputs of all n shards are, one after the
other, the records of one run over everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from sweet_rl.errors import UserError

Item = TypeVar("Item")


def shard_of(items: Sequence[Item], shard: str | None) -> Sequence[Item]:
    """The i-th of n runs of neighbours in `items`, for a shard "i/n" with i from 1 to n; all of them for None.

    Sizes differ by one at most. Raises UserError for any other text.
    """
    if shard is None:
        return items
    numbers = re.fullmatch(r"(\d+)/(\d+)", shard.strip())
    number, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= count:
        raise UserError(f"--shard is {shard!r}; it must be i/n with i from 1 to n, for example 1/4, 2/4, 3/4 and 4/4.")
    return items[len(items) * (number - 1) // count : len(items) * number // count]
