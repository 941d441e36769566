"""HTTP exchanges of JSON with a server. Every failure is a ModelError, refusals by the server included."""

from __future__ import annotations

import asyncio
import email.utils
import errno
import json
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

import aiohttp

from sweet_rl.errors import UserError
from sweet_rl.models.base import CONTEXT_WORDS, ModelError

CONNECT_SECONDS = 30.0
FILTER_WORDS = ("content_filter", "content management policy", "content filter")


class HttpCalls:
    """Connections that are kept open between calls, made in the event loop of the first call.

    Args:
        api_key: Sent as the bearer token.
        timeout: Seconds for one POST, reading the response included.
    """

    def __init__(self, api_key: str | None, timeout: float) -> None:
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send `body` as JSON and return the JSON object of the response.

        Raises:
            ModelError: There is no such response.
            UserError: This process has too many connections open.
        """
        return await self._exchange("POST", url, json.dumps(body).encode(), self._timeout)

    async def get(self, url: str, timeout: float) -> dict[str, Any]:
        """Return the JSON object of the response to a GET request; raises as `post` does."""
        return await self._exchange("GET", url, None, timeout)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, method: str, url: str, data: bytes | None, seconds: float) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_SECONDS))
        try:
            async with self._open().request(method, url, data=data, timeout=timeout) as response:
                status, headers, body = response.status, response.headers, await response.read()
        except asyncio.TimeoutError as error:
            raise ModelError("timeout", f"no answer from {url} within {seconds:g} s.", retryable=True) from error
        except aiohttp.ClientConnectorError as error:
            if error.os_error.errno in (errno.EMFILE, errno.ENFILE):
                raise UserError(
                    "too many open connections: lower --concurrency, or raise the limit (ulimit -n)."
                ) from error
            raise ModelError(
                "connection", f"{url} cannot be reached: {error}", retryable=True, connection_refused=True
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ModelError("connection", f"the connection to {url} broke: {reason}", retryable=True) from error
        if not 200 <= status < 300:
            raise api_error(status, headers, body)
        try:
            answer = json.loads(body)
            if isinstance(answer, dict):
                return answer
            found = type(answer).__name__
        except ValueError as error:
            found = f"no JSON ({error})"
        raise ModelError("malformed", f"the answer of {url} is {found}, expected a JSON object.", retryable=True)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            proxies = bool(urllib.request.getproxies())  # looked up anew for each call where there are any
            self._session = aiohttp.ClientSession(
                headers=self._headers, connector=aiohttp.TCPConnector(limit=0), trust_env=proxies
            )
        return self._session


class ApiError(ModelError):
    """A refusal by the server.

    Attributes:
        param: The request field that the server names as the reason, if it does.
        status: The HTTP status.
    """

    param: str | None = None
    status: int = 0


def api_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error that a response with any status but 2xx means."""
    answer = _body(body)
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    fields = error if isinstance(error, dict) else {}
    message = fields.get("message") or fields.get("detail") or error or "(no message)"
    text = f"HTTP {status}: {message if isinstance(message, str) else json.dumps(message)}"[:2000]
    code = str(fields.get("code") or "")
    kind, retryable = _kind(status, text.lower(), code)
    found = ApiError(kind, text, retryable, retry_after(headers) if retryable else None)
    found.status, found.param = status, fields.get("param") if isinstance(fields.get("param"), str) else None
    return found


def _kind(status: int, text: str, code: str) -> tuple[str, bool]:
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


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            parsed = email.utils.parsedate_tz(value)
            if parsed is None:
                continue
            seconds = email.utils.mktime_tz(parsed) - time.time()
        if seconds == seconds and seconds < float("inf"):
            return max(0.0, seconds)
    return None


def _body(body: bytes) -> Any:
    text = body.decode("utf-8", "replace").strip()
    try:
        return json.loads(text)
    except ValueError:
        return text[:500]
