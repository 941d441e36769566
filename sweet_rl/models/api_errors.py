"""What a server's refusal means: an HTTP status, its headers and its body as a ModelError."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping
from typing import Any

from sweet_rl.models.base import ModelError

CONTEXT_WORDS = (
    "context length",
    "context_length",
    "max_model_len",
    "too long",
    "maximum context",
    "context window",
)
FILTER_WORDS = ("content_filter", "content management policy", "content filter")


class ApiError(ModelError):
    """A refusal with the parameter that the server names as its reason, if it does."""

    param: str | None = None
    status: int = 0


def api_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The typed error of an answer that is no success (any status but 2xx)."""
    said = _body(body)
    error = said.get("error", said) if isinstance(said, dict) else said
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
    """Seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
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
