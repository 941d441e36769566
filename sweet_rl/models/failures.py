"""What a request without a usable answer means: a ModelError with its kind, or a UserError."""

from __future__ import annotations

import errno
import json

import aiohttp
import openai

from sweet_rl.models.base import CONTEXT_WORDS, ModelError
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.redaction import redacted

FILTER_WORDS = ("content_filter", "content management policy", "content filter")
SERVER_FAULTS = ("timeout", "connection", "server", "overloaded", "malformed", "auth")
CONNECT_SECONDS = 30.0
RETRIES = 2  # of the client, for one request


class CannotConnect(ModelError):
    """No connection to the server could be made."""


def transport_error(error: Exception, url: str, seconds: float) -> ModelError:
    """Return the error for a request without a response.

    Args:
        error: Exception of the client.
        url: Base URL of the server.
        seconds: Time limit of the request.

    Raises:
        UserError: Too many connections are open.
    """
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


def refusal(error: openai.APIStatusError) -> ModelError:
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
