"""Several servers of one model: which gets the next call, which are left out for now, and when they are tried again.

A server is left out after failures in a row, or at once if nothing listens there; from then on it is asked alone,
by `probe`, after longer and longer pauses, and calls go to it again when it answers. One that asks for a pause
(Retry-After) gets it, and fewer calls at once afterwards. Calls that find no free server wait in the order in which
they came.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any

from sweet_rl.errors import UserError
from sweet_rl.models.base import ModelError
from sweet_rl.models.hosts import Hosts
from sweet_rl.models.latencies import Latencies

logger = logging.getLogger(__name__)
PATIENCE_WITH_LOAD = 8  # refusals for overload that weigh as much as one failure
TROUBLE = ("timeout", "connection", "server", "overloaded", "malformed", "auth")


class Endpoint:
    """One server. `under_way` counts its calls, `limit` how many it may have; `works` says that it has answered."""

    def __init__(self, url: str, limit: int) -> None:
        self.url = url
        self.limit = float(limit)
        self.under_way = 0
        self.works = False
        self.left_out = False
        self.paused_until = 0.0
        self.failures_in_row = 0.0
        self.probe_pause: float | None = None
        self.limit_cut = 0.0
        self.latencies = Latencies()
        self.answered = 0
        self.failed: Counter[str] = Counter()
        self.times_left_out = 0

    def free(self, now: float) -> bool:
        return not self.left_out and self.under_way < int(self.limit) and self.paused_until <= now

    def summary(self) -> dict[str, Any]:
        calls = self.answered + sum(self.failed.values())
        counts: dict[str, Any] = {"calls": calls, "seconds": self.latencies.summary()}
        if self.failed:
            counts["failed"] = dict(sorted(self.failed.items()))
        if self.times_left_out:
            counts["times_left_out"] = self.times_left_out
        return counts


class Endpoints:
    """The servers of one model.

    Args:
        hosts: where they are; looked at again every `look_again` seconds where the list is in a file.
        probe: asks the server at a URL for something small; raises ModelError if it does not answer.
        concurrency: calls that one server has under way at most.
        patience: seconds without any server after which those who wait get a UserError.
        failures: failures in a row after which a server is left out.
        first_pause, longest_pause: seconds before a server that was left out is asked again; each pause is twice
            the one before.
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
        look_again: float = 1.0,
    ) -> None:
        self.patience = patience
        self._hosts, self._probe, self._concurrency, self._failures = hosts, probe, concurrency, failures
        self._first_pause, self._longest_pause, self._look_again = first_pause, longest_pause, look_again
        self._endpoints = {url: Endpoint(url, concurrency) for url in hosts.urls}
        self._gone: list[Endpoint] = []  # no longer in the file; kept for the summary
        self._waiting: deque[asyncio.Future[Endpoint]] = deque()
        self._tasks: set[asyncio.Task] = set()
        self._watching = False
        self._none_since: float | None = None
        self._turn = 0

    @property
    def all(self) -> list[Endpoint]:
        return list(self._endpoints.values())

    async def take(self) -> Endpoint:
        """The free server with the fewest calls under way; waits for one. Give it back with `give_back`.

        Raises UserError where none has answered for `patience` seconds.
        """
        if self._hosts.may_change and not self._watching:
            self._watching = True
            self._start(self._watch())
        if (error := self._none_for_too_long()) is not None:
            raise error
        endpoint = None if self._waiting else self._choose()
        if endpoint is not None:
            endpoint.under_way += 1
            return endpoint
        place: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                place.result().under_way -= 1  # it was given a server in the moment in which it gave up
                self._serve()
            raise

    def give_back(self, endpoint: Endpoint, seconds: float, error: ModelError | None = None) -> None:
        """Ends a call that took `seconds`; `error` is what became of it, if no reply did."""
        endpoint.under_way -= 1
        kind = None if error is None else error.kind
        if kind is not None:
            endpoint.failed[kind] += 1
        if kind not in TROUBLE:
            self._praise(endpoint, seconds, counted=kind is None)
        elif not endpoint.left_out:
            if kind == "overloaded":
                self._relieve(endpoint, error.retry_after)
                endpoint.failures_in_row += 1 / PATIENCE_WITH_LOAD
            else:
                endpoint.failures_in_row += 1
            if endpoint.failures_in_row >= self._failures or error.nobody_listens:
                self.leave_out(endpoint, str(error))
        self._serve()

    def release(self, endpoint: Endpoint) -> None:
        """Ends a call that was cancelled, which says nothing about its server."""
        endpoint.under_way -= 1
        self._serve()

    def leave_out(self, endpoint: Endpoint, why: str) -> None:
        """No calls to this server until it answers a probe."""
        if endpoint.left_out or self._endpoints.get(endpoint.url) is not endpoint:
            return
        endpoint.left_out = True
        endpoint.times_left_out += 1
        logger.warning("%s is left out for now: %s", endpoint.url, why[:300])
        self._note_if_none()
        self._start(self._try_again(endpoint))

    def summary(self) -> dict[str, Any]:
        """Calls, failures by kind and latencies of each server that was called, by its URL."""
        called = [one for one in (*self._endpoints.values(), *self._gone) if one.answered or one.failed]
        return {one.url: one.summary() for one in called}

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _choose(self) -> Endpoint | None:
        now = time.monotonic()
        free = [one for one in self._endpoints.values() if one.free(now)]
        if not free:
            return None
        least = min(one.under_way for one in free)
        equal = [one for one in free if one.under_way == least]
        self._turn += 1
        return equal[self._turn % len(equal)]

    def _serve(self) -> None:
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
                continue
            endpoint = self._choose()
            if endpoint is None:
                return
            endpoint.under_way += 1
            self._waiting.popleft().set_result(endpoint)

    def _praise(self, endpoint: Endpoint, seconds: float, counted: bool) -> None:
        endpoint.works, endpoint.failures_in_row, endpoint.probe_pause = True, 0, None
        if counted:
            endpoint.answered += 1
            endpoint.latencies.add(seconds)
        if endpoint.limit < self._concurrency:
            endpoint.limit = min(self._concurrency, endpoint.limit + 1 / endpoint.limit)

    def _relieve(self, endpoint: Endpoint, wait: float | None) -> None:
        """The pause that an overloaded server asks for, and half as many calls at once as it had."""
        now = time.monotonic()
        if now - endpoint.limit_cut > 1.0:  # the calls of one burst are refused together: one cut for all of them
            endpoint.limit_cut = now
            endpoint.limit = max(1.0, min(endpoint.limit, endpoint.under_way + 1) / 2)
        if wait:
            endpoint.paused_until = max(endpoint.paused_until, now + min(wait, self.patience))
            asyncio.get_running_loop().call_later(min(wait, self.patience) + 0.001, self._serve)

    async def _try_again(self, endpoint: Endpoint) -> None:
        while self._endpoints.get(endpoint.url) is endpoint:
            endpoint.probe_pause = min(2 * (endpoint.probe_pause or self._first_pause / 2), self._longest_pause)
            await asyncio.sleep(random.uniform(endpoint.probe_pause / 2, endpoint.probe_pause))
            try:
                await self._probe(endpoint.url)
            except ModelError:
                self._end_if_none()
                continue
            if self._endpoints.get(endpoint.url) is endpoint:
                logger.warning("%s answers again", endpoint.url)
                endpoint.left_out, endpoint.failures_in_row = False, self._failures - 1
                self._note_if_none()
                self._serve()
            return

    def _note_if_none(self) -> None:
        """Since when no server is in use."""
        if not all(one.left_out for one in self._endpoints.values()):
            self._none_since = None
        elif self._none_since is None:
            self._none_since = time.monotonic()

    def _none_for_too_long(self) -> UserError | None:
        if self._none_since is None or time.monotonic() - self._none_since <= self.patience:
            return None
        return UserError(
            f"no server has answered for {self.patience:.0f} s ({', '.join(self._endpoints)}). Start one and give the "
            "same command again: it continues."
        )

    def _end_if_none(self) -> None:
        """UserError for everyone who waits, once no server has answered for too long."""
        if (error := self._none_for_too_long()) is not None:
            for place in self._waiting:
                if not place.done():
                    place.set_exception(error)
            self._waiting.clear()

    async def _watch(self) -> None:
        """New lines in a file of servers get calls; those whose line is gone get no more."""
        while True:
            await asyncio.sleep(self._look_again)
            if not self._hosts.changed():
                continue
            urls = self._hosts.urls
            for url in [url for url in self._endpoints if url not in urls]:
                logger.warning("%s is no longer in the list of servers: it gets no more calls", url)
                self._gone.append(self._endpoints.pop(url))
            for url in [url for url in urls if url not in self._endpoints]:
                logger.warning("%s is new in the list of servers", url)
                self._endpoints[url] = Endpoint(url, self._concurrency)
            self._note_if_none()
            self._serve()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("the watch over the servers ended: %s", task.exception())
