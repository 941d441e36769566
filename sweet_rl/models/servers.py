"""Servers with the OpenAI API that serve the same model: which one gets a call, and how long a run waits for one.

Retries are those of the package `openai`: connection errors, time-outs, 408, 409, 429 and 5xx are tried again after
growing pauses, or after the one that the server asks for (Retry-After). Added here: a call that one server cannot
answer goes to another one, and a run waits `patience` seconds for servers that restart or limit the rate.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import openai

from sweet_rl.models.base import TOO_LONG, ModelError
from sweet_rl.models.settings import LOOPBACK, base_url
from sweet_rl.runs.errors import UserError, masked, register_key

logger = logging.getLogger(__name__)
ATTEMPTS = 3  # for one reply, over all servers; failures of WAITED_FOR do not count
OPEN_SERVERS = ("vllm", "sglang")  # as they name themselves in their lists of models
RETRIES = 10  # of openai's client for a single server; 2 for several, because another one can be asked
LONGEST_PAUSE = 60.0  # seconds
CONNECT_SECONDS = 30.0
WAITED_FOR = ("connection", "overloaded")  # kinds of failure that a run waits out, for `patience` seconds
SERVER_FAULTS = (*WAITED_FOR, "timeout", "server")
NO_CREDIT = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
FILTERED = ("content_filter", "content_policy_violation")


@dataclass(eq=False)
class Server:
    """One server. `calls` are in progress or wait for a slot; until `down_until` other servers are preferred."""

    url: str
    client: openai.AsyncOpenAI
    slots: asyncio.Semaphore
    calls: int = 0
    down_until: float = 0.0
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)


class Servers:
    """The servers of one model. A call goes to the server with the fewest calls, and to another one if it fails.

    Args:
        hostnames: Hosts (`node1`, `node1:8001`: http, port 8000 by default) or full base URLs.
        api_key: Bearer token; local servers need none.
        timeout: Seconds within which a server must have answered a call, with the client's retries.
        concurrency: Largest number of calls that one server has in progress.
        patience: Seconds without any answer from any server after which calls raise UserError.
        pause: Seconds before a call is made again when all servers have failed it. They double each time.
        retries: Number of retries of the client.
    """

    def __init__(
        self,
        hostnames: Sequence[str],
        api_key: str | None = None,
        timeout: float = 600.0,
        concurrency: int = 256,
        patience: float = 600.0,
        pause: float = 1.0,
        retries: int | None = None,
    ) -> None:
        register_key(api_key or "")
        self._timeout, self._patience, self._pause = timeout, patience, pause
        urls = list(dict.fromkeys(map(base_url, hostnames)))
        direct: Any = {f"all://[{host}]" if ":" in host else f"all://{host}": None for host in LOOPBACK}
        try:
            self._connections = openai.DefaultAioHttpClient(
                limits=type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=0),  # 0: no limit beside the slots
                follow_redirects=False,  # they could name any host
                mounts=direct,  # no proxy for this machine, whatever HTTP_PROXY says
            )
        except Exception as error:  # errors in environment variables have no common class
            read = [name for name in os.environ if name.upper().endswith("_PROXY") or name.startswith("SSL_CERT_")]
            if not read:
                raise
            raise UserError(f"{' or '.join(read)} cannot be used ({error}): correct or unset it.") from error
        settings: dict[str, Any] = {
            "api_key": api_key or "none",
            "timeout": openai.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            "max_retries": retries if retries is not None else RETRIES if len(urls) == 1 else 2,
            "http_client": self._connections,
        }
        self.all = [
            Server(url, openai.AsyncOpenAI(base_url=url, **settings), asyncio.Semaphore(concurrency)) for url in urls
        ]
        headers = {"Authorization", *self.all[0].client.default_headers} - {"Accept", "Content-Type", "User-Agent"}
        # A server without a key gets none of the environment's either (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS).
        self._options: Any = {} if api_key else {"headers": dict.fromkeys(headers, openai.Omit())}
        self._answered = 0.0  # time of the last answer
        self._checked: asyncio.Task[None] | None = None
        self.owners: set[str] = set()  # `owned_by` of the model in the servers' lists

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON object with which a server answers.

        Raises:
            ModelError: There is no answer. Its cause is openai's exception, or TimeoutError.
            UserError: No server has answered for `patience` seconds.
        """
        attempts, pause, fails_since = 1, self._pause, None
        while True:
            server = min(self.all, key=lambda one: (one.down_until > time.monotonic(), one.calls))
            try:
                return await self._post(server, path, body)
            except ModelError as error:
                now = time.monotonic()
                fails_since = fails_since or now
                if error.kind in WAITED_FOR:
                    silent = now - max(fails_since, self._answered)
                    if silent > self._patience:
                        raise UserError(
                            f"no call was answered for {silent:.0f} s ({', '.join(one.url for one in self.all)}; the "
                            f"last failure: {error}). Start a server, or lower --concurrency or raise --patience if "
                            "the rate is limited, and give the same command again: it continues."
                        ) from error
                elif attempts < ATTEMPTS and (
                    error.kind in ("timeout", "malformed") or (error.kind == "server" and len(self.all) > 1)
                ):
                    attempts += 1
                else:
                    raise
                server.down_until = now + pause
            if all(one.down_until > now for one in self.all):
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def check(self, model: str) -> None:
        """Ask every server once for its models, and leave out those that have other models only.

        Raises UserError if no server answers and has the model, or one refuses the key.
        """
        if self._checked is None:
            self._checked = asyncio.ensure_future(self._check(model))
        await asyncio.shield(self._checked)

    async def _check(self, model: str) -> None:
        having, silent, reasons = [], [], []
        for server, listed in zip(self.all, await asyncio.gather(*map(self._models, self.all)), strict=True):
            if isinstance(listed, ModelError):
                silent.append(server)
                reasons.append(str(listed))
                continue
            owners = {listed[model]} if model in listed else set(listed.values())
            if model not in listed and owners & set(OPEN_SERVERS):  # a gateway need not list all its models
                reasons.append(f"{server.url} has other models ({', '.join([*listed][:5])})")
                continue
            having.append(server)
            self.owners |= owners
        if not having:
            raise UserError(
                f"no server answers and has the model {model!r} ({'; '.join(reasons)}). Start one (for example `vllm "
                f"serve {model}`) or correct the hostname."
            )
        for reason in reasons:
            logger.warning("%s", reason)
        self.all = having + silent

    @property
    def is_open(self) -> bool:
        """Whether the servers say that they are vLLM or SGLang."""
        return bool(self.owners) and self.owners <= set(OPEN_SERVERS)

    async def _models(self, server: Server) -> dict[str, str] | ModelError:
        """The models that the server lists and their owners; none if it has no such list, or forbids it."""
        client = server.client.with_options(max_retries=min(2, server.client.max_retries))
        try:
            async with asyncio.timeout(self._timeout):
                listed: Any = await client.get("/models", cast_to=object, options=self._options)
        except (openai.OpenAIError, TimeoutError) as error:
            failure = model_error(error, server.url)
            if isinstance(error, openai.AuthenticationError):
                raise UserError(
                    f"{server.url} refuses the key, or that there is none: {failure} OPENAI_API_KEY is sent to "
                    "OpenAI's own API only: for others name a variable with --api_key_variable."
                ) from error
            return failure if failure.kind in SERVER_FAULTS else {}
        rows = listed.get("data") if isinstance(listed, dict) else listed  # Together's list is bare
        return {str(row.get("id")): str(row.get("owned_by")) for row in rows or [] if isinstance(row, dict)}

    def summary(self) -> dict[str, Any]:
        """Return the calls and failures by kind of each server that was called, by its URL."""
        called = [server for server in self.all if server.answered or server.failed]
        return {one.url: {"calls": one.answered + one.failed.total(), "failed": dict(one.failed)} for one in called}

    async def close(self) -> None:
        await self._connections.aclose()

    async def _post(self, server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
        server.calls += 1
        try:
            async with server.slots, asyncio.timeout(self._timeout):
                answer: Any = await server.client.post(path, cast_to=object, body=body, options=self._options)
            if not isinstance(answer, dict):
                raise ValueError(f"it is no JSON object: {str(answer)[:200]!r}")
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            failure = model_error(error, server.url)
            if failure.kind not in SERVER_FAULTS:
                self._answered = time.monotonic()
            elif not server.failed.keys() & set(SERVER_FAULTS):
                logger.warning("%s failed (%s): %s", server.url, failure.kind, str(failure)[:300])
            server.failed[failure.kind] += 1
            raise failure from error
        finally:
            server.calls -= 1
        server.answered += 1
        server.down_until, self._answered = 0.0, time.monotonic()
        return answer


def model_error(error: Exception, url: str) -> ModelError:
    """Return what a failed request means."""
    text = masked(str(error))[:2000]
    refused = type(error.__cause__).__name__ == "ConnectTimeout"  # our transport's for any failed connection
    if isinstance(error, openai.APITimeoutError | TimeoutError) and not refused:
        return ModelError("timeout", f"no answer from {url} within the time limit (--timeout).", True)
    if isinstance(error, openai.APIConnectionError):
        return ModelError("connection", f"{url} cannot be reached: {masked(str(error.__cause__ or error))}", True)
    if not isinstance(error, openai.APIStatusError):
        return ModelError("malformed", f"the answer of {url} cannot be read: {text}", True)
    status = error.status_code
    if status < 400:
        text = masked(f"HTTP {status}: {url} redirects to {error.response.headers.get('location')}")
    if status == 404 and not url.endswith("/v1"):
        text += f" (Does {url} end in /v1?)"
    if status in (401, 402, 404) or error.code in NO_CREDIT:
        return ModelError("auth", text)
    if status in (429, 503):
        return ModelError("overloaded", text, True)
    if error.code == "context_length_exceeded" or TOO_LONG.search(text):
        return ModelError("context", text)
    if error.code in FILTERED:
        return ModelError("filtered", text)
    if status >= 500:
        return ModelError("server", text, True)
    return ModelError("refused", text, param=error.param)
