"""The retry policy: bounded, with random waits, logged; the last error is raised."""

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
    """When a failed call is repeated.

    Attributes:
        attempts: Largest number of calls.
        overloaded_attempts: The same for calls that fail because the server is overloaded.
        first_wait: Seconds to wait before the second call, at most; doubled for each further call.
        longest_wait: Upper bound of the wait, unless the server asks for a longer one (Retry-After).
    """

    attempts: int = 6
    overloaded_attempts: int = 30
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def wait_before(self, attempt: int, error: ModelError) -> float:
        """Return the seconds to wait after failure number `attempt`."""
        bound = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, 30))
        return max(random.uniform(bound / 2, bound), error.retry_after or 0.0)

    async def call(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Await `ask()`, again after retryable errors.

        Raises:
            ModelError: The last one.
        """
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
                logger.info("attempt %d: %s (%s); next attempt in %.1f s", tries + overloaded, error.kind, error, wait)
                await asyncio.sleep(wait)
