"""Keys and values of dialogues between their turns, so that a turn computes only the tokens that are new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

import torch

Pairs = list[tuple[torch.Tensor, ...]]  # keys and values of one text, [heads, tokens, size] each, per layer


class KeptTexts:
    """The texts of finished replies with their keys and values, the newest ones within a memory budget.

    Args:
        capacity: Largest number of tokens of all texts.
        eos_ids: Token ids that end a reply.
    """

    def __init__(self, capacity: int, eos_ids: Collection[int]) -> None:
        self.capacity, self.eos_ids, self.tokens = capacity, eos_ids, 0
        self._pairs: OrderedDict[tuple[int, ...], Pairs] = OrderedDict()

    def keep(self, ids: Sequence[int], pairs: Pairs) -> None:
        """Keep a text without the token that ended it, and drop the oldest texts for which there is no memory."""
        self._drop(tuple(ids))
        self._pairs[tuple(ids)] = pairs
        self.tokens += len(ids)
        while self.tokens > self.capacity:
            self._drop(next(iter(self._pairs)))

    def take(self, ids: Sequence[int]) -> tuple[int, Pairs]:
        """Remove the longest text that `ids` continue; return its number of tokens (0: no text) and its pairs."""
        for end in range(len(ids) - 1, 0, -1):
            if ids[end] in self.eos_ids and (pairs := self._drop(tuple(ids[:end]))) is not None:
                return end, pairs
        return 0, []

    def _drop(self, ids: tuple[int, ...]) -> Pairs | None:
        pairs = self._pairs.pop(ids, None)
        if pairs is not None:
            self.tokens -= len(ids)
        return pairs
