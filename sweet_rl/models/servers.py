"""Servers with the OpenAI API that serve the same model: which one gets a call, and what a failure means.

Retries and time-outs of a request are those of the package `openai`: connection errors, time-outs, 408, 409, 429 and
5xx are tried again after growing pauses, or after the pause that the server asks for (Retry-After, up to the client's
own limit of one or two minutes). The code here adds what that client does not do: a call that one server cannot answer
goes to another one, a reply that cannot be read is requested again, and a run waits for a server that restarts.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import openai

from sweet_rl.errors import UserError
from sweet_rl.models.base import CONTEXT_WORDS, ModelError
from sweet_rl.models.hostnames import base_url
from sweet_rl.redaction import note_secret, redacted

logger = logging.getLogger(__name__)
FILTER_WORDS = ("content_filter", "content management policy", "content filter")
SERVER_FAULTS = ("timeout", "connection", "server", "overloaded", "malformed", "auth")
CONNECT_SECONDS = 30.0
LIST_SECONDS = 60.0  # within which a server must list its models
RETRIES = 2  # of the client, for one request
ATTEMPTS = 3  # requests for one reply, each with the client's retries
FIRST_CALLS = 8  # that a server has in progress at first; one more with every answer
LONGEST_PAUSE = 120.0  # seconds; a longer one that a server asks for is not kept by the client
SKIP_SECONDS = 30.0  # for which a server that failed gets no calls if another server can take them
T = TypeVar("T")


class CannotConnect(ModelError):
    """No connection to the server could be made."""


@dataclass(eq=False)
class Server:
    """One server.

    Attributes:
        url: Its base URL.
        places: Semaphore with one place for each call that may be in progress.
        more_places: Number of places that may be added.
        client: The OpenAI client for this base URL.
        calls: Number of calls that are in progress or wait for a place.
        answered: Whether it has ever answered a call.
        skip_until: Time (`time.monotonic`) until which calls go to the other servers.
        seconds: Durations of the answered calls.
        failed: Number of failed calls per kind.
        rate_limits: Number of answers with the status 429.
    """

    url: str
    client: openai.AsyncOpenAI
    places: asyncio.Semaphore
    more_places: int = 0
    calls: int = 0
    answered: bool = False
    skip_until: float = 0.0
    seconds: array = field(default_factory=lambda: array("f"))
    failed: Counter[str] = field(default_factory=Counter)
    rate_limits: int = 0

    def add_place(self) -> None:
        """Take one more call at the same time from now on, unless the server has all its places."""
        if self.more_places:
            self.more_places -= 1
            self.places.release()

    def summary(self) -> dict[str, Any]:
        failed: dict[str, Any] = {"failed": dict(sorted(self.failed.items()))} if self.failed else {}
        failed |= {"rate_limits": self.rate_limits} if self.rate_limits else {}
        calls = len(self.seconds) + sum(self.failed.values())
        return {"calls": calls, "seconds": latency_summary(self.seconds), **failed}


class Servers:
    """The servers of one model. A call goes to the server with the fewest calls.

    Args:
        hostnames: Hosts (`node1`, `node1:8001`: http, port 8000 by default) or full base URLs.
        api_key: Bearer token. Without one there is no such header, nor any that the client takes from the environment
            (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS).
        timeout: Seconds within which a server must answer a request.
        concurrency: Largest number of calls that one server has in progress. It begins with FIRST_CALLS and grows by
            one with each answer while no server limits the rate.
        patience: Seconds without any answer from any server after which calls raise UserError.
        pause: Seconds before another attempt on the same server, after the client's own retries.

    Attributes:
        all: The servers, each base URL once.

    Raises:
        UserError: A hostname is no server.
    """

    def __init__(
        self,
        hostnames: Sequence[str],
        api_key: str | None = None,
        timeout: float = 600.0,
        concurrency: int = 256,
        patience: float = 600.0,
        pause: float = 5.0,
    ) -> None:
        note_secret(api_key or "")
        self._timeout, self._patience, self._pause = timeout, patience, pause
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=0)  # 0: aiohttp sets no limit
        hooks: Any = {"response": [self._note_limit]}
        self._connections = openai.DefaultAioHttpClient(limits=limits, event_hooks=hooks, follow_redirects=False)
        self._limited_until = 0.0  # time (`time.monotonic`) until which a server asks for a pause
        self.all: list[Server] = []
        for url in dict.fromkeys(map(base_url, hostnames)):
            client = openai.AsyncOpenAI(
                base_url=url,
                api_key=api_key or "none",
                timeout=openai.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
                max_retries=RETRIES,
                http_client=self._connections,
            )
            first = min(concurrency, FIRST_CALLS)
            self.all.append(Server(url, client, asyncio.Semaphore(first), concurrency - first))
        headers = {"Authorization", *client.default_headers} - {"Accept", "Content-Type", "User-Agent"}
        self._options: Any = {} if api_key else {"headers": {name: openai.Omit() for name in headers}}
        self._silent_since: float | None = None  # time of the first failure after the last answer

    async def call(self, path: str, body: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        """Return what `read` makes of the JSON object with which a server answers.

        A call fails after `ATTEMPTS` requests, each on another server if there is one. Requests that find no server to
        connect to, or an overloaded one, do not count for `patience` seconds from the first failure.

        Args:
            path: Path of the request below the base URL.
            body: Body of the request.
            read: Function that raises ModelError if it cannot use the answer.

        Raises:
            ModelError: There is no answer; the last failure. The cause of a refusal is an openai.APIStatusError.
            UserError: No server has answered for `patience` seconds, or this process has too many open connections.
        """
        fails_since: float | None = None
        attempts, failed_on = 0, set[Server]()
        while True:
            server = self._least_busy(failed_on)
            try:
                return await self.request(server, path, body, read)
            except ModelError as error:
                if error.kind not in SERVER_FAULTS or (error.kind == "auth" and not self._may_pass(server)):
                    raise
                now = time.monotonic()
                fails_since = fails_since or now  # not the time of the call, which may have waited long for a place
                self._raise_if_silent(error, now)
                waits = error.kind == "overloaded" or isinstance(error, CannotConnect)
                attempts += not (waits and now - fails_since <= self._patience)
                if attempts == ATTEMPTS:
                    raise
                logger.info("%s: %s (%s); the call is made again", server.url, error.kind, error)
            failed_on.add(server)
            if len(failed_on) == len(self.all):
                failed_on.clear()
                await asyncio.sleep(max(self._pause, self._limited_until - time.monotonic()))

    async def models(self, server: Server) -> list[str]:
        """Return the names of the models that the server lists; none if it has no such list.

        Raises:
            ModelError: The server does not answer, or refuses the key.
        """
        try:
            options: Any = {**self._options, "timeout": LIST_SECONDS}
            request = server.client.get("/models", cast_to=object, options=options)
            answer = await self._json_object(server, request, LIST_SECONDS)
        except ModelError as error:
            status = getattr(error.__cause__, "status_code", None)
            if status in (None, 401, 403) or (error.retryable and status != 500):
                raise  # `transformers serve` without a cache folder of the hub answers 500
            return []
        listed = answer.get("data")
        return [str(one.get("id")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    def skip(self, server: Server, reason: str) -> None:
        """Give this server no calls for a while, if there are others."""
        if not server.skip_until and len(self.all) > 1:
            logger.warning("%s is left out for now: %s", server.url, reason[:300])
        server.skip_until = time.monotonic() + SKIP_SECONDS

    def waiting(self) -> str:
        """Return how often servers limited the rate and how long calls wait now, for a progress line; "" if not now."""
        seconds = self._limited_until - time.monotonic()
        count = sum(server.rate_limits for server in self.all)
        return f"rate limit (429) {count} times, waits {seconds:.0f} s" if seconds > 0 else ""

    def summary(self) -> dict[str, Any]:
        """Return calls, failures by kind and latencies of each server that was called, by its URL."""
        return {server.url: server.summary() for server in self.all if server.seconds or server.failed}

    async def close(self) -> None:
        await self._connections.aclose()

    def _least_busy(self, failed_on: set[Server]) -> Server:
        """Return a server on which this call has not failed. A server that was skipped gets one call to show itself."""
        now = time.monotonic()
        left = [server for server in self.all if server not in failed_on]
        found = min(left, key=lambda server: (server.skip_until > now, server.calls, len(server.seconds)))
        if found.skip_until:
            found.skip_until = now + SKIP_SECONDS
        return found

    async def request(self, server: Server, path: str, body: dict[str, Any], read: Callable[[dict], T]) -> T:
        """Return what `read` makes of the answer of this server. Raises ModelError; the client has repeated it."""
        server.calls += 1
        try:
            async with server.places:
                start = time.monotonic()
                post = server.client.post(path, cast_to=object, body=body, options=self._options)
                found = read(await self._json_object(server, post, self._timeout))
        except ModelError as error:
            server.failed[error.kind] += 1
            if error.kind in SERVER_FAULTS:
                self.skip(server, str(error))
            else:
                self._record_answer(server)
            raise
        finally:
            server.calls -= 1
        server.seconds.append(time.monotonic() - start)
        if time.monotonic() > self._limited_until:
            server.add_place()
        self._record_answer(server)
        return found

    def _record_answer(self, server: Server) -> None:
        if server.skip_until and len(self.all) > 1:
            logger.warning("%s answers again", server.url)
        server.answered, server.skip_until, self._silent_since = True, 0.0, None

    async def _note_limit(self, response: Any) -> None:
        """Count an answer 429 and note its pause; the client repeats the request without telling."""
        if response.status_code != 429:
            return
        for server in self.all:
            if str(response.request.url).startswith(server.url + "/"):
                server.rate_limits += 1
                if server.rate_limits == 1:
                    logger.warning("%s limits the rate (429): calls wait", server.url)
        try:
            seconds = float(response.headers["retry-after"])
        except (KeyError, ValueError):  # none, or a date
            seconds = 0.0
        pause = seconds if 0 < seconds <= LONGEST_PAUSE else self._pause
        self._limited_until = max(self._limited_until, time.monotonic() + pause)

    def _raise_if_silent(self, error: ModelError, now: float) -> None:
        self._silent_since = self._silent_since or now
        if now - self._silent_since > self._patience:
            told, remedy = "no server has answered", "Start one"
            if error.kind in ("malformed", "auth"):  # they answer
                told, remedy = "no server has given an answer that can be used", "See to that"
            raise UserError(
                f"{told} for {now - self._silent_since:.0f} s "
                f"({', '.join(server.url for server in self.all)}; the last failure: {error}). {remedy} and give the "
                "same command again: it continues."
            ) from error

    def _may_pass(self, server: Server) -> bool:
        """Return whether another attempt may succeed after the server refused the key or the model."""
        return server.answered or len(self.all) > 1

    async def _json_object(self, server: Server, request: Any, seconds: float) -> dict[str, Any]:
        """Return the JSON object of the response to a request of the client, which has a time limit of `seconds`."""
        try:
            answer: object = await request
            if isinstance(answer, str):  # what the client returns of a response that does not call itself JSON
                answer = json.loads(answer)
            found = type(answer).__name__
        except (ValueError, RecursionError) as error:
            answer, found = None, f"no JSON ({error})"
        except openai.APIStatusError as error:
            raise _refusal(error) from error
        except (openai.OpenAIError, aiohttp.ClientError, OSError) as error:
            raise _transport_error(error, server.url, seconds) from error
        if not isinstance(answer, dict):
            raise ModelError("malformed", f"the answer of {server.url} is {found}, expected a JSON object.", True)
        return answer


def latency_summary(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p90, p99 and longest of the durations of calls, in seconds; empty without calls."""
    ordered = sorted(seconds)
    ranks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "longest": 1.0}
    return {name: round(ordered[math.ceil(rank * len(ordered)) - 1], 3) for name, rank in ranks.items() if ordered}


def _transport_error(error: Exception, url: str, seconds: float) -> ModelError:
    """Return the error for a call without a response. Raises UserError if too many connections are open."""
    causes: list[BaseException] = [error]  # the transport reports refused and dropped connections as time-outs too
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    if any(getattr(cause, "errno", None) in (errno.EMFILE, errno.ENFILE) for cause in causes):
        raise UserError("too many open connections: lower --concurrency, or raise the limit (ulimit -n).") from error
    for cause in causes:
        if isinstance(cause, aiohttp.ClientConnectorError):
            return CannotConnect("connection", f"{url} cannot be reached: {cause}", retryable=True)
        if isinstance(cause, TimeoutError):
            text = f"no answer from {url} within {seconds:g} s, asked {RETRIES + 1} times."
            if any(type(one).__name__ in ("ConnectTimeout", "ConnectionTimeoutError") for one in causes):
                text = f"no connection to {url} within {min(seconds, CONNECT_SECONDS):g} s, tried {RETRIES + 1} times."
            return ModelError("timeout", text, retryable=True)
    reason = f"{type(causes[-1]).__name__}: {causes[-1]}"
    return ModelError("connection", f"the connection to {url} broke: {reason}", retryable=True)


def _refusal(error: openai.APIStatusError) -> ModelError:
    """Return the error for a response with an error status. Redirects are not followed: they could name any host."""
    fields = error.body if isinstance(error.body, dict) else {}
    message = fields.get("message") or fields.get("detail") or error.body or "(no message)"
    message = message if isinstance(message, str) else json.dumps(message)
    if error.status_code < 400:
        message = f"give the address that answers; the server redirects to {error.response.headers.get('location')}"
    text = redacted(f"HTTP {error.status_code}: {message}")[:2000]
    kind, retryable = _kind(error.status_code, text.lower(), error.code or "")
    return ModelError(kind, text, retryable)


def _kind(status: int, text: str, code: str) -> tuple[str, bool]:
    """Return the kind of a refusal, and whether the same call may succeed later."""
    if status in (401, 403, 404) or code == "insufficient_quota":
        return "auth", False
    if status in (429, 503, 529):
        return "overloaded", True
    if status in (408, 409, 425) or status >= 500 or status < 400:
        return "server", True
    if status == 413 or any(words in text for words in CONTEXT_WORDS):
        return "context", False
    if any(words in text or words in code for words in FILTER_WORDS):
        return "filtered", False
    return "refused", False
