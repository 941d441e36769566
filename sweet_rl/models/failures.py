"""What a request without a usable answer means: a ModelError with its kind, or a UserError."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from typing import Any

import aiohttp
import openai

from sweet_rl.models.base import TOO_LONG, ModelError
from sweet_rl.runs.errors import UserError, masked

SERVER_FAULTS = ("timeout", "connection", "server", "overloaded", "malformed", "auth", "forbidden")
CONNECT_SECONDS = 30.0
RETRIES = 2  # of the client, for one request
# What servers write into the fields code, type, status or error_type. A code is read before any word of a message.
CODES = {
    "auth": {
        "insufficient_quota", "exceeded_current_quota_error", "billing_not_active", "billing_hard_limit_reached",
        "budget_exceeded", "insufficient_credits", "insufficient_balance", "arrearage", "invalid_api_key",
        "api_key_invalid", "model_not_found",
    },
    "context": {
        "context_length_exceeded", "exceed_context_size_error", "context_window_exceeded",
        "model_context_window_exceeded", "string_above_max_length",
    },
    "filtered": {
        "content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed",
        "invalid_prompt", "moderation_blocked",
    },
    "refused": {"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"},
}  # fmt: skip
BUSY = {"rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "overloaded_error", "engine_overloaded_error"}
WORDS = {  # in the message of a refusal whose code says nothing
    "auth": re.compile(
        r"(no|not enough|insufficient|out of|any|more|add|buy|purchase|available|remaining|exceeded your|used all)"
        r"[\w ]{0,20}\bcredits?\b|\bcredits?\b[\w ]{0,20}(too low|exhausted|exceeded|depleted|used up|left|remaining)"
        r"|insufficient (balance|fund|quota)|budget has been exceeded|key limit exceeded|in good standing"
        r"|payment required|api[ _]key (is )?(not valid|invalid|not found|missing|expired)"
        r"|(invalid|incorrect) api[ _]key"
    ),
    "context": TOO_LONG,
    "filtered": re.compile(
        r"content[ _](filter|management policy|policy|exists risk|moderation)|content violates|usage (guidelines|polic)"
        r"|safety (system|check|filter|polic)|\bflagged\b|(inappropriate|prohibited|harmful|unsafe) content"
        r"|(by|requires) moderation|guardrail|(request|prompt|content|input|message) (was|is|has been) "
        r"(blocked|rejected)"
    ),
}


class CannotConnect(ModelError):
    """No connection to the server could be made."""


class AnswerTooLarge(openai.OpenAIError):
    """An answer has more bytes than any that was asked for could have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most:,} bytes")
        self.most = most


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
        if isinstance(cause, AnswerTooLarge):
            text = f"the answer of {url} is larger than {cause.most / 2**20:,.0f} MiB, far more than was asked for."
            return ModelError("malformed", text, retryable=True)
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
    try:
        body = json.loads(error.response.text)  # the client's own copy lacks what stands beside `error`
    except (ValueError, RecursionError):
        body = error.response.text
    if error.status_code < 400:
        body = f"give the address that answers; the server redirects to {error.response.headers.get('location')}"
    return _error(error.status_code, body)


def error_in_answer(answer: dict[str, Any]) -> ModelError | None:
    """Return the error in a response that calls itself a success, read as if its code were the status; None if none."""
    choices = answer.get("choices")
    broken = (
        [one["error"] for one in choices if isinstance(one, dict) and one.get("error")]
        if isinstance(choices, list)
        else []
    )
    if broken:
        answer = {"error": broken[0]}
    elif not answer.get("error") and (choices or not {"message", "detail", "code"} & answer.keys()):
        return None
    codes = [str(one.get(name)) for one in _objects(answer) for name in ("code", "status", "status_code")]
    statuses = [int(code) for code in codes if re.fullmatch("[45][0-9][0-9]", code)]
    return _error(statuses[0] if statuses else 500, answer)


def settled(error: ModelError, answered: bool) -> ModelError:
    """Return a refusal with the status 403 as one of this dialogue, if the server answered others, else of the key."""
    if error.kind != "forbidden":
        return error
    found = ModelError("refused" if answered else "auth", str(error))
    found.__cause__ = error.__cause__
    return found


def without_surrogates(text: str) -> str:
    """Return a text with U+FFFD for each half of a surrogate pair, which no file, tokenizer or server takes."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _error(status: int, body: Any) -> ModelError:
    fields = [*_objects(body)]
    message = next((text for one in fields for text in map(_text, _messages(one)) if text), None) or _text(body)
    raw = next((one["raw"] for one in fields if isinstance(one.get("raw"), str)), "")  # of OpenRouter's provider
    text = f"HTTP {status}: {message or '(no message)'} {raw}".rstrip()
    text = masked(without_surrogates(text))[:2000]
    names = ("code", "type", "status", "error_type", "reason")
    codes = {str(one.get(name)).lower() for one in fields for name in names}
    kind, retryable = _kind(status, text.lower(), codes)
    params = [one["param"] for one in fields if isinstance(one.get("param"), str)]
    return ModelError(kind, text, retryable, params[0] if params else None)


def _objects(body: Any) -> Iterator[dict]:
    """The objects in the body of an error that may name its code, the outermost first."""
    for one in body if isinstance(body, list) else [body]:
        if isinstance(one, dict):
            yield one
            for name in ("error", "message", "innererror", "metadata", "details", "detail"):
                yield from _objects(one.get(name))


def _messages(fields: dict) -> Iterator[Any]:
    yield from (fields.get(name) for name in ("message", "detail", "error") if not isinstance(fields.get(name), dict))


def _text(message: Any) -> str:
    """A message as text; of a list of faulty fields, as pydantic makes it, the place and the fault, without the input,
    because words of a dialogue say nothing about the fault."""
    if isinstance(message, str):
        return message
    if isinstance(message, list) and all(isinstance(one, dict) and type(one.get("loc")) is list for one in message):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one.get('msg', '')}" for one in message)
    return json.dumps(message) if message else ""


def _kind(status: int, text: str, codes: set[str]) -> tuple[str, bool]:
    """Return the kind of a refusal, and whether the same call may succeed later.

    Args:
        status: HTTP status, or the code of an error in a response that calls itself a success.
        text: Message in lower case.
        codes: Codes and types in lower case.
    """
    for kind, known in CODES.items():
        if codes & known:
            return kind, False
    if status == 413 and "rate_limit_exceeded" in codes:  # more tokens than the account may send in a minute
        return "refused", False
    if status in (429, 498, 503, 529) or codes & BUSY:  # 498: Groq's flex tier is full
        return "overloaded", True
    if status in (401, 402, 404):
        return "auth", False
    if TOO_LONG.search(text):
        return "context", False
    if status in (408, 409, 425) or status >= 500 or status < 400:
        return "server", True
    for kind, words in WORDS.items():
        if words.search(text):
            return kind, False
    return {403: "forbidden", 413: "context"}.get(status, "refused"), False
