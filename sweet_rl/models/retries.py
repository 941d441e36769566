"""One retry policy: bounded, jittered, logged, and at its end the last error goes up."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sweet_rl.models.base import ModelError

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """Up to `attempts` calls, `overloaded_attempts` where the server says that it has too much to do; before call
    k+1 a wait of up to first_wait * 2^k seconds, at most longest_wait, or what the server asks for (Retry-After), if
    that is longer."""

    attempts: int = 6
    overloaded_attempts: int = 30
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def wait_before(self, attempt: int, error: ModelError) -> float:
        bound = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, 30))
        return max(random.uniform(bound / 2, bound), error.retry_after or 0.0)

    async def call(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Awaits ask(), again after errors that say they are retryable. Raises the last ModelError."""
        tries = overloaded = 0
        while True:
            try:
                return await ask()
            except ModelError as error:
                overloaded += error.kind == "overloaded"
                tries += error.kind != "overloaded"
                if not error.retryable or tries >= self.attempts or overloaded >= self.overloaded_attempts:
                    raise
                wait = self.wait_before(max(tries, overloaded), error)
                logger.info("attempt %d: %s (%s); again in %.1f s", tries + overloaded, error.kind, error, wait)
                await asyncio.sleep(wait)
