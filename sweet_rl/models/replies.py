"""Parsing and checking of the replies in a response of the OpenAI API."""

from __future__ import annotations

from typing import Any

from sweet_rl.chat import ChatFormat
from sweet_rl.models.base import Completion, ModelError


def chat_completions(answer: dict[str, Any], count: int) -> list[Completion]:
    """Return the `count` replies in a response of `/chat/completions`.

    Raises:
        ModelError: The response is malformed, or the content filter refused the dialogue.
    """
    return [_chat_completion(choice, usage) for choice, usage in _choices(answer, count)]


def text_completions(answer: dict[str, Any], count: int, chat: ChatFormat | None) -> list[Completion]:
    """Return the `count` replies in a response of `/completions`, with token ids if the server reports them.

    Raises:
        ModelError: The response is malformed, or the content filter refused the dialogue.
    """
    return [_text_completion(choice, usage, chat) for choice, usage in _choices(answer, count)]


def _choices(answer: dict[str, Any], count: int) -> list[tuple[dict, tuple[int, int]]]:
    """Return the choices in order, each with (prompt tokens, its share of the completion tokens).

    One choice is accepted if more were requested: some servers give one reply per call.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise _malformed("no choices in the server's reply")
    if len(choices) not in (1, count):
        raise _malformed(f"{len(choices)} choices in the server's reply, expected {count}")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    prompt, made = (_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    ordered = sorted(choices, key=lambda choice: _count(choice.get("index")))
    share = len(choices)
    return [(choice, (prompt, made // share + (place < made % share))) for place, choice in enumerate(ordered)]


def _chat_completion(choice: dict, usage: tuple[int, int]) -> Completion:
    message = choice.get("message")
    reason = choice.get("finish_reason")
    if reason == "content_filter" or isinstance(message, dict) and message.get("refusal"):
        raise ModelError("filtered", "the server's content filter refused this dialogue.")
    text = message.get("content") if isinstance(message, dict) else None
    if text is None and reason == "length" and isinstance(message, dict):
        text = ""  # a reasoning model that thought until its limit
    if not isinstance(text, str):
        raise _malformed("the server's reply has no text")
    return Completion(text, None, None, _reason(reason), *usage)


def _text_completion(choice: dict, usage: tuple[int, int], chat: ChatFormat | None) -> Completion:
    reason, text = choice.get("finish_reason"), choice.get("text")
    if reason == "content_filter":
        raise ModelError("filtered", "the server's content filter refused this dialogue.")
    if not isinstance(text, str):
        raise _malformed("the server's reply has no text")
    ids = choice.get("token_ids")
    if chat is None or not ids or not isinstance(ids, list) or any(type(token) is not int for token in ids):
        ids = None
    reported = choice.get("logprobs")
    logprobs = reported.get("token_logprobs") if isinstance(reported, dict) else None
    logprobs = logprobs if isinstance(logprobs, list) else []
    if any(type(value) not in (int, float) for value in logprobs) or (ids is not None and len(logprobs) != len(ids)):
        logprobs = []
    counts = usage if ids is None else (usage[0], len(ids))
    return Completion(text if ids is None else chat.decode(ids), ids, logprobs or None, _reason(reason), *counts)


def _reason(finish_reason: Any) -> str:
    return "length" if finish_reason == "length" else "stop"


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _malformed(what: str) -> ModelError:
    return ModelError("malformed", f"{what}.", retryable=True)
