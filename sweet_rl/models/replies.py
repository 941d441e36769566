"""Parsing and checking of the replies in a response of the OpenAI API."""

from __future__ import annotations

from typing import Any

from sweet_rl.models.base import Completion, ModelError
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.redaction import holds_secret


def completions(answer: dict[str, Any], count: int, kind: str, chat: ChatFormat | None = None) -> list[Completion]:
    """Return the `count` replies in a response, in order, each with its share of the completion tokens.

    One choice is accepted if more were requested: some servers give one reply per call.

    Args:
        answer: The response.
        count: Number of replies that were requested.
        kind: `chat` for a response of `/chat/completions`, `text` for one of `/completions`.
        chat: The model's chat format, to decode token ids that the server reports; None ignores them.

    Raises:
        ModelError: The response is malformed or holds a key, or the content filter refused the dialogue.
    """
    choices, usage = answer.get("choices"), answer.get("usage")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise _malformed("no choices in the server's reply")
    if len(choices) not in (1, count):
        raise _malformed(f"{len(choices)} choices in the server's reply, expected {count}")
    usage = usage if isinstance(usage, dict) else {}
    prompt, made = (_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    found = []
    for place, choice in enumerate(sorted(choices, key=lambda choice: _count(choice.get("index")))):
        share = made // len(choices) + (place < made % len(choices))
        text, reason = _text(choice, kind), choice.get("finish_reason")
        ids = None if chat is None else _token_ids(choice)
        if ids is not None and chat is not None:
            if not all(0 <= token < chat.vocabulary for token in ids):
                raise _malformed(f"the server's reply has token ids that {chat.name} does not know")
            text, share = chat.decode(ids), len(ids)
        if holds_secret(text):  # refused and not masked, because its token ids hold the key too
            raise _malformed(
                "the server's reply holds an API key or token of this machine, which must reach no record and no other "
                "server: see what stands before the model, for example a proxy that repeats headers"
            )
        reason = "length" if reason == "length" else "stop"
        found.append(Completion(text, ids, _logprobs(choice, ids), reason, prompt, share))
    return found


def _text(choice: dict, kind: str) -> str:
    message = choice.get("message") if kind == "chat" else choice
    message = message if isinstance(message, dict) else {}
    if choice.get("finish_reason") == "content_filter" or message.get("refusal"):
        raise ModelError("filtered", "the server's content filter refused this dialogue.")
    text = message.get("content" if kind == "chat" else "text")
    if text is None and kind == "chat" and message and choice.get("finish_reason") == "length":
        return ""  # a reasoning model that thought until its limit
    if not isinstance(text, str):
        found = "null" if text is None else type(text).__name__
        reason = choice.get("finish_reason")
        raise _malformed(f"the server's reply has no text: its content is {found}, its finish_reason {reason!r}")
    return text


def _token_ids(choice: dict) -> list[int] | None:
    ids = choice.get("token_ids")
    whole = isinstance(ids, list) and ids and all(type(token) is int for token in ids)
    return ids if whole else None


def _logprobs(choice: dict, ids: list[int] | None) -> list[float] | None:
    """Return the log-probs of a text completion, if there is one for each token."""
    reported = choice.get("logprobs")
    logprobs = reported.get("token_logprobs") if isinstance(reported, dict) else None
    if not isinstance(logprobs, list) or any(type(value) not in (int, float) for value in logprobs):
        return None
    return logprobs if logprobs and (ids is None or len(logprobs) == len(ids)) else None


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _malformed(what: str) -> ModelError:
    return ModelError("malformed", f"{what}.", retryable=True)
