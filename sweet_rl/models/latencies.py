"""How long calls took, as percentiles, in memory that does not grow with the number of calls."""

from __future__ import annotations

import math
from collections import Counter

STEP = math.log(1.05)
SHORTEST = 1e-4


class Latencies:
    """Seconds in buckets that are 5 % wide, so that a percentile is right to 5 %."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self._longest = 0.0

    def add(self, seconds: float) -> None:
        self._buckets[round(math.log(max(seconds, SHORTEST)) / STEP)] += 1
        self._longest = max(self._longest, seconds)

    def percentile(self, share: float) -> float | None:
        """The time within which `share` (0 to 1) of the calls were answered; None without calls."""
        total, seen = sum(self._buckets.values()), 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= share * total:
                return min(math.exp(bucket * STEP), self._longest)
        return None

    def summary(self) -> dict[str, float]:
        """Seconds: p50, p90, p99, longest."""
        if not self._buckets:
            return {}
        times = {f"p{round(100 * share)}": self.percentile(share) for share in (0.5, 0.9, 0.99)}
        return {name: round(seconds, 3) for name, seconds in (times | {"longest": self._longest}).items()}
