"""A server with the OpenAI API: calls and their retries, and how long a run waits for it.

Retries are those of the package `openai`: connection errors, time-outs, 408, 409, 429 and 5xx are tried again after
growing pauses, or after the one that the server asks for (Retry-After). Added here: a run waits `patience` seconds for
a server that restarts or limits the rate.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import Counter
from typing import Any

import openai

from sweet_rl.models.base import TOO_LONG, ModelError
from sweet_rl.models.settings import LOOPBACK, base_url
from sweet_rl.runs.errors import UserError, masked, register_key

logger = logging.getLogger(__name__)
ATTEMPTS = 3  # for one reply; failures of WAITED_FOR do not count
OPEN_SERVERS = ("vllm", "sglang")  # as they name themselves in their lists of models
RETRIES = 10  # of openai's client
LONGEST_PAUSE = 60.0  # seconds
CONNECT_SECONDS = 30.0
WAITED_FOR = ("connection", "overloaded")  # kinds of failure that a run waits out, for `patience` seconds
SERVER_FAULTS = (*WAITED_FOR, "timeout", "server")
NO_CREDIT = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
FILTERED = ("content_filter", "content_policy_violation")


class Server:
    """One server.

    Args:
        hostname: Host (`node1`, `node1:8001`: http, port 8000 by default) or full base URL.
        api_key: Bearer token; a local server needs none.
        timeout: Seconds within which the server must have answered a call, with the client's retries.
        concurrency: Largest number of calls in progress.
        patience: Seconds without any answer after which calls raise UserError.
        pause: Seconds before a call that failed is made again. They double each time.
        retries: Number of retries of the client.
    """

    def __init__(
        self,
        hostname: str,
        api_key: str | None = None,
        timeout: float = 600.0,
        concurrency: int = 256,
        patience: float = 600.0,
        pause: float = 1.0,
        retries: int = RETRIES,
    ) -> None:
        register_key(api_key or "")
        self.url = base_url(hostname)
        self._timeout, self._patience, self._pause = timeout, patience, pause
        direct: Any = {f"all://[{host}]" if ":" in host else f"all://{host}": None for host in LOOPBACK}
        try:
            connections = openai.DefaultAioHttpClient(
                limits=type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=0),  # 0: no limit beside the slots
                follow_redirects=False,  # they could name any host
                mounts=direct,  # no proxy for this machine, whatever HTTP_PROXY says
            )
        except Exception as error:  # errors in environment variables have no common class
            read = [name for name in os.environ if name.upper().endswith("_PROXY") or name.startswith("SSL_CERT_")]
            if not read:
                raise
            raise UserError(f"{' or '.join(read)} cannot be used ({error}): correct or unset it.") from error
        self._client = openai.AsyncOpenAI(
            base_url=self.url,
            api_key=api_key or "none",
            timeout=openai.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            max_retries=retries,
            http_client=connections,
        )
        headers = {"Authorization", *self._client.default_headers} - {"Accept", "Content-Type", "User-Agent"}
        # A server without a key gets none of the environment's either (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS).
        self._options: Any = {} if api_key else {"headers": dict.fromkeys(headers, openai.Omit())}
        self._slots = asyncio.Semaphore(concurrency)
        self._answers, self._failures = 0, Counter[str]()
        self._answered = 0.0  # time of the last answer
        self._checked: asyncio.Task[None] | None = None
        self._owners: set[str] = set()  # `owned_by` of the model in the server's list

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON object with which the server answers.

        Raises:
            ModelError: There is no answer. Its cause is openai's exception, or TimeoutError.
            UserError: The server has not answered for `patience` seconds.
        """
        attempts, pause, fails_since = 1, self._pause, None
        while True:
            try:
                return await self._post(path, body)
            except ModelError as error:
                now = time.monotonic()
                fails_since = fails_since or now
                if error.kind in WAITED_FOR:
                    silent = now - max(fails_since, self._answered)
                    if silent > self._patience:
                        raise UserError(
                            f"no call was answered for {silent:.0f} s ({self.url}; the last failure: {error}). Start "
                            "the server, or lower --concurrency or raise --patience if the rate is limited, and give "
                            "the same command again: it continues."
                        ) from error
                elif attempts < ATTEMPTS and error.kind in ("timeout", "malformed"):
                    attempts += 1
                else:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def check(self, model: str) -> None:
        """Ask the server once for its models.

        Raises UserError if it does not answer, refuses the key, or has other models only.
        """
        if self._checked is None:
            self._checked = asyncio.ensure_future(self._check(model))
        await asyncio.shield(self._checked)

    async def _check(self, model: str) -> None:
        """Ask for the list of models; a server that has none, or forbids it, passes."""
        client = self._client.with_options(max_retries=min(2, self._client.max_retries))
        try:
            async with asyncio.timeout(self._timeout):
                listed: Any = await client.get("/models", cast_to=object, options=self._options)
        except (openai.OpenAIError, TimeoutError) as error:
            failure = model_error(error, self.url)
            if isinstance(error, openai.AuthenticationError):
                raise UserError(
                    f"{self.url} refuses the key, or that there is none: {failure} OPENAI_API_KEY is sent to "
                    "OpenAI's own API only: for others name a variable with --api_key_variable."
                ) from error
            if failure.kind in SERVER_FAULTS:
                raise UserError(
                    f"no server answers that has the model {model!r}: {failure} Start one (for example `vllm serve "
                    f"{model}`) or correct the hostname."
                ) from error
            return
        rows = listed.get("data") if isinstance(listed, dict) else listed  # Together's list is bare
        owners = {str(row.get("id")): str(row.get("owned_by")) for row in rows or [] if isinstance(row, dict)}
        self._owners = {owners[model]} if model in owners else set(owners.values())
        if model not in owners and self._owners & set(OPEN_SERVERS):  # a gateway need not list all its models
            raise UserError(
                f"{self.url} has other models than {model!r} ({', '.join([*owners][:5])}): correct the name or the "
                "hostname."
            )

    @property
    def is_open(self) -> bool:
        """Whether the server says that it is vLLM or SGLang."""
        return bool(self._owners) and self._owners <= set(OPEN_SERVERS)

    def summary(self) -> dict[str, Any]:
        """Return the number of calls and the failures by kind, by the server's URL."""
        calls = self._answers + self._failures.total()
        return {self.url: {"calls": calls, "failed": dict(self._failures)}} if calls else {}

    async def close(self) -> None:
        await self._client.close()

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            async with self._slots, asyncio.timeout(self._timeout):
                answer: Any = await self._client.post(path, cast_to=object, body=body, options=self._options)
            if not isinstance(answer, dict):
                raise ValueError(f"it is no JSON object: {str(answer)[:200]!r}")
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            failure = model_error(error, self.url)
            if failure.kind not in SERVER_FAULTS:
                self._answered = time.monotonic()
            elif not self._failures.keys() & set(SERVER_FAULTS):
                logger.warning("%s failed (%s): %s", self.url, failure.kind, str(failure)[:300])
            self._failures[failure.kind] += 1
            raise failure from error
        self._answers += 1
        self._answered = time.monotonic()
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
