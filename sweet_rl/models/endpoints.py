"""Several servers of one model: which server gets the next call, and which ones get none for now.

A server is suspended after several failures in a row, or after the first one if the connection is refused. It is then
probed after longer and longer pauses, and gets calls again when it answers. A server that asks for a pause
(Retry-After) gets no calls for so long, and fewer concurrent calls afterwards. Calls that find no free server wait in
the order in which they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from array import array
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.errors import UserError
from sweet_rl.models.base import ModelError
from sweet_rl.models.hosts import Hosts

logger = logging.getLogger(__name__)
OVERLOADS_PER_FAILURE = 8  # refusals for overload that weigh as much as one failure
SERVER_FAULTS = ("timeout", "connection", "server", "overloaded", "malformed", "auth")


def latency_summary(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p90, p99 and longest of the durations of calls, in seconds; empty without calls."""
    ordered = sorted(seconds)
    ranks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "longest": 1.0}
    return {name: round(ordered[math.ceil(rank * len(ordered)) - 1], 3) for name, rank in ranks.items() if ordered}


@dataclass(eq=False)
class Endpoint:
    """One server.

    Attributes:
        under_way: Its calls in progress.
        limit: How many it may have; cut after overload, restored by successes.
        works: Whether it has ever answered.
        suspended: Whether it gets no calls until it answers a probe.
    """

    url: str
    limit: float
    under_way: int = 0
    works: bool = False
    suspended: bool = False
    paused_until: float = 0.0
    failures_in_row: float = 0.0
    probe_pause: float | None = None
    limit_cut: float = 0.0
    times_left_out: int = 0
    seconds: array = field(default_factory=lambda: array("f"))
    failed: Counter[str] = field(default_factory=Counter)

    def free(self, now: float) -> bool:
        return not self.suspended and self.under_way < int(self.limit) and self.paused_until <= now

    def summary(self) -> dict[str, Any]:
        calls = len(self.seconds) + sum(self.failed.values())
        counts = {"failed": dict(sorted(self.failed.items())), "times_left_out": self.times_left_out}
        counts = {name: count for name, count in counts.items() if count}
        return {"calls": calls, "seconds": latency_summary(self.seconds), **counts}


class Endpoints:
    """The servers of one model.

    Args:
        hosts: Their URLs; files of them are read again every `poll_hosts` seconds.
        probe: Makes a small request to the server at a URL; raises ModelError if there is no response.
        concurrency: Largest number of calls that one server has in progress.
        patience: Seconds without any server after which waiting calls get a UserError.
        failures: Failures in a row after which a server is suspended.
        first_pause: Seconds before the first probe of a suspended server; each later pause is twice the one before.
        longest_pause: Longest pause between two probes, in seconds.
        poll_hosts: Seconds.
    """

    def __init__(
        self,
        hosts: Hosts,
        probe: Callable[[str], Awaitable[None]],
        concurrency: int = 256,
        patience: float = 600.0,
        failures: int = 3,
        first_pause: float = 0.5,
        longest_pause: float = 30.0,
        poll_hosts: float = 1.0,
    ) -> None:
        self.patience = patience
        self._hosts, self._probe, self._concurrency, self._failures = hosts, probe, concurrency, failures
        self._first_pause, self._longest_pause, self._poll_hosts = first_pause, longest_pause, poll_hosts
        self._endpoints = {url: Endpoint(url, concurrency) for url in hosts.urls}
        self._gone: list[Endpoint] = []  # no longer in the file; kept for the summary
        self._waiting: deque[asyncio.Future[Endpoint]] = deque()
        self._tasks: set[asyncio.Task] = set()
        self._watching = False
        self._all_suspended_since: float | None = None
        self._turn = 0

    @property
    def all(self) -> list[Endpoint]:
        return list(self._endpoints.values())

    @contextlib.asynccontextmanager
    async def free_endpoint(self) -> AsyncIterator[Endpoint]:
        """Take a server for one call; a ModelError within is counted as its failure. Raises as `take` does."""
        endpoint = await self.take()
        start = time.monotonic()
        try:
            yield endpoint
        except ModelError as error:
            self.give_back(endpoint, time.monotonic() - start, error)
            raise
        except BaseException:
            self.release(endpoint)
            raise
        self.give_back(endpoint, time.monotonic() - start)

    async def take(self) -> Endpoint:
        """Wait for a free server and return the one with the fewest calls in progress.

        The caller ends the call with `give_back`, or with `release` if it was cancelled.

        Raises:
            UserError: No server has answered for `patience` seconds.
        """
        if self._hosts.may_change and not self._watching:
            self._watching = True
            self._start(self._watch())
        if (error := self._suspended_too_long()) is not None:
            raise error
        endpoint = None if self._waiting else self._least_busy()
        if endpoint is not None:
            endpoint.under_way += 1
            return endpoint
        place: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                place.result().under_way -= 1  # cancelled after a server was assigned, before it was used
                self._assign_waiting()
            raise

    def give_back(self, endpoint: Endpoint, seconds: float, error: ModelError | None = None) -> None:
        """End a call that took `seconds`; `error` is its failure, if there was one."""
        endpoint.under_way -= 1
        kind = None if error is None else error.kind
        if kind is not None:
            endpoint.failed[kind] += 1
        if kind not in SERVER_FAULTS:
            self._record_success(endpoint, seconds, counted=kind is None)
        elif not endpoint.suspended:
            if kind == "overloaded":
                self._reduce_load(endpoint, error.retry_after)
                endpoint.failures_in_row += 1 / OVERLOADS_PER_FAILURE
            else:
                endpoint.failures_in_row += 1
            if endpoint.failures_in_row >= self._failures or error.connection_refused:
                self.suspend(endpoint, str(error))
        self._assign_waiting()

    def release(self, endpoint: Endpoint) -> None:
        """End a call that was cancelled: neither a success nor a failure of its server."""
        endpoint.under_way -= 1
        self._assign_waiting()

    def suspend(self, endpoint: Endpoint, why: str) -> None:
        """Give this server no calls until it answers a probe."""
        if endpoint.suspended or self._endpoints.get(endpoint.url) is not endpoint:
            return
        endpoint.suspended = True
        endpoint.times_left_out += 1
        logger.warning("%s is left out for now: %s", endpoint.url, why[:300])
        self._note_if_all_suspended()
        self._start(self._probe_until_it_answers(endpoint))

    def summary(self) -> dict[str, Any]:
        """Return calls, failures by kind and latencies of each server that was called, by its URL."""
        called = [one for one in (*self._endpoints.values(), *self._gone) if one.seconds or one.failed]
        return {one.url: one.summary() for one in called}

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _least_busy(self) -> Endpoint | None:
        now = time.monotonic()
        free = [one for one in self._endpoints.values() if one.free(now)]
        if not free:
            return None
        least = min(one.under_way for one in free)
        equal = [one for one in free if one.under_way == least]
        self._turn += 1
        return equal[self._turn % len(equal)]

    def _assign_waiting(self) -> None:
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
                continue
            endpoint = self._least_busy()
            if endpoint is None:
                return
            endpoint.under_way += 1
            self._waiting.popleft().set_result(endpoint)

    def _record_success(self, endpoint: Endpoint, seconds: float, counted: bool) -> None:
        endpoint.works, endpoint.failures_in_row, endpoint.probe_pause = True, 0, None
        if counted:
            endpoint.seconds.append(seconds)
        if endpoint.limit < self._concurrency:
            endpoint.limit = min(self._concurrency, endpoint.limit + 1 / endpoint.limit)

    def _reduce_load(self, endpoint: Endpoint, wait: float | None) -> None:
        """Pause an overloaded server for as long as it asks, and halve its number of concurrent calls."""
        now = time.monotonic()
        if now - endpoint.limit_cut > 1.0:  # one cut for all refusals of a burst
            endpoint.limit_cut = now
            endpoint.limit = max(1.0, min(endpoint.limit, endpoint.under_way + 1) / 2)
        if wait:
            endpoint.paused_until = max(endpoint.paused_until, now + min(wait, self.patience))
            asyncio.get_running_loop().call_later(min(wait, self.patience) + 0.001, self._assign_waiting)

    async def _probe_until_it_answers(self, endpoint: Endpoint) -> None:
        while self._endpoints.get(endpoint.url) is endpoint:
            endpoint.probe_pause = min(2 * (endpoint.probe_pause or self._first_pause / 2), self._longest_pause)
            await asyncio.sleep(random.uniform(endpoint.probe_pause / 2, endpoint.probe_pause))
            try:
                await self._probe(endpoint.url)
            except ModelError:
                self._fail_waiting_if_too_long()
                continue
            if self._endpoints.get(endpoint.url) is endpoint:
                logger.warning("%s answers again", endpoint.url)
                endpoint.suspended, endpoint.failures_in_row = False, self._failures - 1
                self._note_if_all_suspended()
                self._assign_waiting()
            return

    def _note_if_all_suspended(self) -> None:
        """Record since when all servers have been suspended."""
        if not all(one.suspended for one in self._endpoints.values()):
            self._all_suspended_since = None
        elif self._all_suspended_since is None:
            self._all_suspended_since = time.monotonic()

    def _suspended_too_long(self) -> UserError | None:
        if self._all_suspended_since is None or time.monotonic() - self._all_suspended_since <= self.patience:
            return None
        return UserError(
            f"no server has answered for {self.patience:.0f} s ({', '.join(self._endpoints)}). Start one and give the "
            "same command again: it continues."
        )

    def _fail_waiting_if_too_long(self) -> None:
        """Raise UserError in all waiting calls if no server has answered for too long."""
        if (error := self._suspended_too_long()) is not None:
            for place in self._waiting:
                if not place.done():
                    place.set_exception(error)
            self._waiting.clear()

    async def _watch(self) -> None:
        """Add the new servers of a file of hosts, and give those that are gone no more calls."""
        while True:
            await asyncio.sleep(self._poll_hosts)
            if not self._hosts.changed():
                continue
            urls = self._hosts.urls
            for url in [url for url in self._endpoints if url not in urls]:
                logger.warning("%s is no longer in the list of servers: it gets no more calls", url)
                self._gone.append(self._endpoints.pop(url))
            for url in [url for url in urls if url not in self._endpoints]:
                logger.warning("%s is new in the list of servers", url)
                self._endpoints[url] = Endpoint(url, self._concurrency)
            self._note_if_all_suspended()
            self._assign_waiting()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a background task over the servers failed: %s", task.exception())
