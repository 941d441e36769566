"""Servers with the OpenAI API that serve the same model: which one gets a call, and when it is made again.

Retries and time-outs of a request are those of the package `openai`: connection errors, time-outs, 408, 409, 429 and
5xx are tried again after growing pauses, or after the pause that the server asks for (Retry-After, up to the client's
own limit of one or two minutes). The code here adds what that client does not do: a call that one server cannot answer
goes to another one, a reply that cannot be read is requested again, and a run waits for a server that restarts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import openai

from sweet_rl.models.base import ModelError
from sweet_rl.models.failures import (
    CONNECT_SECONDS,
    RETRIES,
    SERVER_FAULTS,
    AnswerTooLarge,
    CannotConnect,
    refusal,
    settled,
    transport_error,
)
from sweet_rl.models.hostnames import LOOPBACK, base_url, proxy_note
from sweet_rl.runs.errors import UserError, register_key

logger = logging.getLogger(__name__)
LIST_SECONDS = 60.0  # within which a server must list its models
# Largest answer in bytes, unpacked: 16 replies of 32,768 tokens with log-probs have 50 MiB. For each byte of a request
# it may be larger: `prompt_logprobs` give a token id, which has about 6 bytes, an entry of about 110.
ANSWER_BYTES, ANSWER_BYTES_PER_BYTE = 64 << 20, 64
ATTEMPTS = 3  # requests for one reply, each with the client's retries
LONGEST_PAUSE = 120.0  # seconds between two attempts; a longer one that a server asks for is not kept
T = TypeVar("T")


@dataclass(eq=False)
class Server:
    """One server.

    Attributes:
        url: Its base URL.
        client: The OpenAI client for this base URL.
        places: Semaphore with one place for each call that may be in progress.
        calls: Number of calls that are in progress or wait for a place.
        works: Whether it answered the last call. One that did not gets one call at a time if there are other servers.
        limited_until: Time (`time.monotonic`) until which it asks for no further requests.
        answered: Number of answered calls.
        failed: Number of failed calls per kind.
        rate_limits: Number of answers with the status 429.
    """

    url: str
    client: openai.AsyncOpenAI
    places: asyncio.Semaphore
    calls: int = 0
    works: bool = True
    limited_until: float = 0.0
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    rate_limits: int = 0

    def record_failure(self, error: ModelError) -> None:
        """Note that a call failed because of the server. The first time is a warning, the others are in the summary."""
        level = logging.INFO if any(kind in SERVER_FAULTS for kind in self.failed) else logging.WARNING
        logger.log(level, "%s failed (%s): %s", self.url, error.kind, str(error)[:300])
        self.works = False

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {"calls": self.answered + sum(self.failed.values())}
        if self.failed:
            found["failed"] = dict(sorted(self.failed.items()))
        if self.rate_limits:
            found["rate_limits"] = self.rate_limits
        return found


class _LimitedClient(openai.DefaultAioHttpClient):
    """An HTTP client with a limit of time and one of bytes for each whole answer.

    The time goes on while bytes arrive, and bytes are counted as they arrive and are unpacked. Answers that arrive at
    the same time are not counted together.
    """

    async def send(self, request: Any, **options: Any) -> Any:
        seconds = request.extensions["timeout"]["read"]
        try:
            async with asyncio.timeout(seconds):
                return await _whole(await super().send(request, **options | {"stream": True}))
        except TimeoutError as error:
            package = sys.modules[type(request).__module__.partition(".")[0]]  # httpx or httpx2, by openai's version
            raise package.ReadTimeout(f"no whole answer within {seconds:g} s", request=request) from error


async def _whole(response: Any) -> Any:
    """The response with all its bytes. Raises AnswerTooLarge, which the client does not request again."""
    most = ANSWER_BYTES + ANSWER_BYTES_PER_BYTE * len(response.request.content)
    parts, size = [], 0
    try:
        async for part in response.aiter_bytes():
            parts.append(part)
            size += len(part)
            if size > most:
                raise AnswerTooLarge(most)
    finally:
        await response.aclose()
    packed = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in packed]
    return type(response)(
        response.status_code,
        headers=headers,
        content=b"".join(parts),
        request=response.request,
        extensions=response.extensions,
    )


class Servers:
    """The servers of one model. A call goes to the server with the fewest calls, and to another one if it fails.

    Args:
        hostnames: Hosts (`node1`, `node1:8001`: http, port 8000 by default) or full base URLs.
        api_key: Bearer token. Without one there is no such header, nor any that the client takes from the environment
            (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS).
        timeout: Seconds within which a server must answer a request.
        concurrency: Largest number of calls that one server has in progress.
        patience: Seconds without any answer from any server after which calls raise UserError.
        pause: Seconds before a call is made again when all servers have failed it. They double each time, and a random
            part of at most half is taken off.

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
        register_key(api_key or "")
        self._timeout, self._patience, self._pause = timeout, patience, pause
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=0)  # 0: aiohttp sets no limit
        hooks: Any = {"response": [self._note_limit]}
        direct = dict.fromkeys(
            (f"all://[{host}]" if ":" in host else f"all://{host}" for host in LOOPBACK), None
        )  # whatever HTTP_PROXY says
        self._connections = _LimitedClient(limits=limits, event_hooks=hooks, follow_redirects=False, mounts=direct)
        self.all: list[Server] = []
        for url in dict.fromkeys(map(base_url, hostnames)):
            client = openai.AsyncOpenAI(
                base_url=url,
                api_key=api_key or "none",
                timeout=openai.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
                max_retries=RETRIES,
                http_client=self._connections,
            )
            self.all.append(Server(url, client, asyncio.Semaphore(concurrency)))
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
        attempts, pause, failed_on = 0, self._pause, set[Server]()
        while True:
            server = self._next(failed_on)
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
                    raise settled(error, False) from error.__cause__
            failed_on.add(server)
            if len(failed_on) == len(self.all):
                failed_on.clear()
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def models(self, server: Server) -> list[str]:
        """Return the names of the models that the server lists; none if it has no such list, or forbids it.

        Raises:
            ModelError: The server does not answer at all.
        """
        try:
            options: Any = {**self._options, "timeout": LIST_SECONDS}
            request = server.client.get("/models", cast_to=object, options=options)
            answer = await self._answer(server, request, LIST_SECONDS)
        except ModelError as error:
            if error.kind in ("timeout", "connection"):
                raise
            return []
        listed = answer.get("data") if isinstance(answer, dict) else answer  # Together's list is bare
        return [str(one.get("id")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    async def request(self, server: Server, path: str, body: dict[str, Any], read: Callable[[dict], T]) -> T:
        """Return what `read` makes of the answer of this server. Raises ModelError; the client has repeated it."""
        server.calls += 1
        try:
            async with server.places:
                await asyncio.sleep(server.limited_until - time.monotonic())
                post = server.client.post(path, cast_to=object, body=body, options=self._options)
                answer = await self._answer(server, post, self._timeout)
                if not isinstance(answer, dict):
                    text = f"the answer of {server.url} is {type(answer).__name__}, expected a JSON object."
                    raise ModelError("malformed", text, True)
                found = read(answer)
        except ModelError as raised:
            error = settled(raised, True) if server.answered else raised
            if error.kind in SERVER_FAULTS:
                server.record_failure(error)
            else:
                self._record_answer(server)
            server.failed[error.kind] += 1
            raise error from raised.__cause__
        finally:
            server.calls -= 1
        server.answered += 1
        self._record_answer(server)
        return found

    def waiting(self) -> str:
        """Return how often servers limited the rate and how long calls wait now, for a progress line; "" if not now."""
        seconds = max(server.limited_until for server in self.all) - time.monotonic()
        count = sum(server.rate_limits for server in self.all)
        return f"rate limit (429) {count} times, waits {seconds:.0f} s" if seconds > 0 else ""

    def proxies(self) -> str:
        """Return which servers are asked through a proxy of the environment, as sentences; "" for none."""
        return "".join(f" {note}" for server in self.all if (note := proxy_note(server.url)))

    def summary(self) -> dict[str, Any]:
        """Return the calls and failures by kind of each server that was called, by its URL."""
        return {server.url: server.summary() for server in self.all if server.answered or server.failed}

    async def close(self) -> None:
        await self._connections.aclose()

    def _next(self, failed_on: set[Server]) -> Server:
        """Return the server with the fewest calls on which this call has not failed.

        One that did not answer its last call is taken if it has no call in progress, but after one that works.
        """
        left = [server for server in self.all if server not in failed_on]
        return min(left, key=lambda server: (not server.works and server.calls > 0, server.calls, not server.works))

    def _record_answer(self, server: Server) -> None:
        server.works, self._silent_since = True, None

    async def _note_limit(self, response: Any) -> None:
        """Count an answer 429 and note its pause; the client repeats the request without telling."""
        if response.status_code != 429:
            return
        try:
            seconds = float(response.headers["retry-after"])
        except (KeyError, ValueError):  # none, or a date
            seconds = 0.0
        pause = seconds if 0 < seconds <= LONGEST_PAUSE else self._pause
        for server in self.all:
            if str(response.request.url).startswith(server.url + "/"):
                server.rate_limits += 1
                if server.rate_limits == 1:
                    logger.warning("%s limits the rate (429): calls wait", server.url)
                server.limited_until = max(server.limited_until, time.monotonic() + pause)

    def _raise_if_silent(self, error: ModelError, now: float) -> None:
        self._silent_since = self._silent_since or now
        if now - self._silent_since > self._patience:
            found, remedy = "no server has answered", "Start one"
            if error.kind in ("malformed", "auth", "overloaded"):  # they answer
                found, remedy = "no server has given an answer that can be used", "See to that"
            raise UserError(
                f"{found} for {now - self._silent_since:.0f} s "
                f"({', '.join(server.url for server in self.all)}; the last failure: {error}). {remedy} and give the "
                f"same command again: it continues.{self.proxies()}"
            ) from error

    def _may_pass(self, server: Server) -> bool:
        """Return whether another attempt may succeed after the server refused the key or the model."""
        return server.answered > 0 or len(self.all) > 1

    async def _answer(self, server: Server, request: Any, seconds: float) -> object:
        """Return the JSON value of the response to a request of the client, which has a time limit of `seconds`."""
        try:
            answer: object = await request
            # The client returns the text of a response that does not call itself JSON.
            return json.loads(answer) if isinstance(answer, str) else answer
        except (ValueError, RecursionError) as error:
            raise ModelError("malformed", f"the answer of {server.url} is no JSON ({error}).", True) from error
        except openai.APIStatusError as error:
            raise refusal(error) from error
        except (openai.OpenAIError, aiohttp.ClientError, OSError) as error:
            raise transport_error(error, server.url, seconds) from error
