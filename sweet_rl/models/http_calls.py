"""One HTTP exchange of JSON with a server: whatever goes wrong is a ModelError."""

from __future__ import annotations

import asyncio
import errno
import json
import urllib.request
from typing import Any

import aiohttp

from sweet_rl.errors import UserError
from sweet_rl.models.api_errors import api_error
from sweet_rl.models.base import ModelError

CONNECT_SECONDS = 30.0


class HttpCalls:
    """Connections that are kept open between calls; made in the event loop of the first call.

    api_key: sent as the bearer token. timeout: seconds for one exchange, reading the answer included.
    """

    def __init__(self, api_key: str | None, timeout: float) -> None:
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        """The JSON object that the server answers. Raises ModelError."""
        return await self._exchange("POST", url, json.dumps(body).encode(), self._timeout)

    async def get(self, url: str, timeout: float) -> dict[str, Any]:
        """The same for a question without a body."""
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
                    "too many connections are open at once: lower --concurrency, or raise the limit (ulimit -n)."
                ) from error
            found = ModelError("connection", f"{url} cannot be reached: {error}", retryable=True)
            found.nobody_listens = True
            raise found from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise ModelError("connection", f"the connection to {url} broke: {said}", retryable=True) from error
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
