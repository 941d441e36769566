"""Calls to servers with the OpenAI API through the package `openai`. Every failure is a ModelError."""

from __future__ import annotations

import asyncio
import email.utils
import errno
import json
import math
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import anyio
import openai

from sweet_rl.errors import UserError
from sweet_rl.models.base import CONTEXT_WORDS, ModelError

CONNECT_SECONDS = 30.0
FILTER_WORDS = ("content_filter", "content management policy", "content filter")


class Calls:
    """A client whose connections are kept open between calls, made in the event loop of the first call.

    It repeats no call: the next attempt may go to another server.

    Args:
        api_key: Sent as the bearer token; without one there is no such header.
        timeout: Seconds for one call, reading the response included.
    """

    def __init__(self, api_key: str | None, timeout: float) -> None:
        self._api_key, self._timeout = api_key, timeout
        self._options: Any = {} if api_key else {"headers": {"Authorization": openai.Omit()}}
        self._clients: dict[str, openai.AsyncOpenAI] = {}  # by URL; all of them share their connections

    async def call(
        self, url: str, path: str, body: dict[str, Any] | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return the JSON object of the response to a POST of `body`, or to a GET without one.

        Raises:
            ModelError: There is no such response; of a refusal the cause is an openai.APIStatusError.
            UserError: This process has too many connections open.
        """
        seconds = timeout or self._timeout
        try:
            with anyio.fail_after(seconds):  # the client limits only the time between two pieces of a response
                client = self._client(url)
                if body is None:
                    answer: object = await client.get(path, cast_to=object, options=self._options)
                else:
                    answer = await client.post(path, cast_to=object, body=body, options=self._options)
            if isinstance(answer, str):  # what the client returns of a response that does not call itself JSON
                answer = json.loads(answer)
            found = type(answer).__name__
        except ValueError as error:
            answer, found = None, f"no JSON ({error})"
        except openai.APIStatusError as error:
            raise _refusal(error, self._api_key) from error
        except (openai.OpenAIError, aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise _transport_error(error, url, seconds) from error
        if not isinstance(answer, dict):
            raise ModelError("malformed", f"the answer of {url} is {found}, expected a JSON object.", retryable=True)
        return answer

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    def _client(self, url: str) -> openai.AsyncOpenAI:
        if url not in self._clients:
            for client in self._clients.values():
                self._clients[url] = client.with_options(base_url=url)
                break
            else:
                self._clients[url] = self._first_client(url)
        return self._clients[url]

    def _first_client(self, url: str) -> openai.AsyncOpenAI:
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=0)  # 0: aiohttp sets no limit
        return openai.AsyncOpenAI(
            base_url=url,
            api_key=self._api_key or "none",
            timeout=openai.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS)),
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(limits=limits),
        )


def _transport_error(error: Exception, url: str, seconds: float) -> ModelError:
    """Return the error for a call without a response. Raises UserError if too many connections are open."""
    causes = [error]  # the transport reports refused and dropped connections as time-outs; the causes tell them apart
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    if any(getattr(cause, "errno", None) in (errno.EMFILE, errno.ENFILE) for cause in causes):
        raise UserError("too many open connections: lower --concurrency, or raise the limit (ulimit -n).") from error
    for cause in causes:
        if isinstance(cause, aiohttp.ClientConnectorError):
            text = f"{url} cannot be reached: {cause}"
            return ModelError("connection", text, retryable=True, connection_refused=True)
        if isinstance(cause, (TimeoutError, asyncio.TimeoutError)):  # two classes in Python 3.10
            return ModelError("timeout", f"no answer from {url} within {seconds:g} s.", retryable=True)
    reason = f"{type(causes[-1]).__name__}: {causes[-1]}"
    return ModelError("connection", f"the connection to {url} broke: {reason}", retryable=True)


def _refusal(error: openai.APIStatusError, api_key: str | None) -> ModelError:
    """Return the error for a response with an error status; a key that the server repeats is removed."""
    fields = error.body if isinstance(error.body, dict) else {}
    message = fields.get("message") or fields.get("detail") or error.body or "(no message)"
    message = message if isinstance(message, str) else json.dumps(message)
    text = f"HTTP {error.status_code}: {message.replace(api_key, '***') if api_key else message}"[:2000]
    kind, retryable = _kind(error.status_code, text.lower(), error.code or "")
    return ModelError(kind, text, retryable, _retry_after(error.response.headers) if retryable else None)


def _kind(status: int, text: str, code: str) -> tuple[str, bool]:
    """Return the kind of a refusal, and whether another call may succeed."""
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


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return None if date is None else max(0.0, email.utils.mktime_tz(date) - time.time())
