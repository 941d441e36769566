"""Parsing and checking of the replies in a response of the OpenAI API."""

from __future__ import annotations

import math
from typing import Any

from sweet_rl.models.base import Completion, ModelError
from sweet_rl.models.failures import error_in_answer, without_surrogates
from sweet_rl.models.texts.chat import ChatFormat

# Reasons for which a generation ended, in lower case. Any other is the server's own word for "stop".
# LocalAI gave none for whole replies, so no reason is "stop" too, but for a reply of all allowed tokens.
NO_REASON = {"none", "null", "", "other", "unknown", "unspecified"}
CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
FILTERED = {
    "content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    "refusal", "sensitive", "guardrail_intervened",
}  # fmt: skip
BROKEN = {"error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource", "network_error"}
ENDED = {  # by the model, with a text or without one
    "stop", "tool_calls", "function_call", "end_turn", "tool_use", "eos", "eos_token", "malformed_function_call",
    "function_call_filter", *CUT,
}  # fmt: skip


def completions(
    answer: dict[str, Any], count: int, kind: str, chat: ChatFormat | None = None, max_tokens: int | None = None
) -> list[Completion]:
    """Return the `count` replies in a response, in order, each with its share of the completion tokens.

    Fewer choices are accepted: some servers give one reply per call, or leave some out. A reply without text (null, a
    call of a tool, reasoning only) is the model's empty message. Token ids of an ended reply that lack the token which
    ended it are not used (some servers trim it), because training would see a reply without its end.

    Args:
        answer: The response.
        count: Number of replies that were requested.
        kind: `chat` for a response of `/chat/completions`, `text` for one of `/completions`.
        chat: The model's chat format, to decode token ids that the server reports; None ignores them.
        max_tokens: Largest number of tokens that a reply may have, as requested; None if there was no such limit.

    Raises:
        ModelError: The response is an error, is malformed, holds a key or log-probs that are no numbers; the server
            broke the generation off; or the content filter refused the dialogue.
    """
    if error := error_in_answer(answer):
        raise error
    choices, usage = answer.get("choices"), answer.get("usage")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise _malformed("no choices in the server's reply")
    if not 1 <= len(choices) <= count:
        raise _malformed(f"{len(choices)} choices in the server's reply, expected {count}")
    usage = usage if isinstance(usage, dict) else {}
    prompt, made = (_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    found = []
    for place, choice in enumerate(sorted(choices, key=lambda choice: _count(choice.get("index")) or 0)):
        share = None if made is None else made // len(choices) + (place < made % len(choices))
        reason = _reason(choice)
        text = without_surrogates(_text(choice, kind, reason))
        ids = None if chat is None else _token_ids(choice, reason, chat)
        if ids is not None and chat is not None:
            text, share = chat.decode(ids), len(ids)
        if text and not share:
            share = None  # some servers count nothing and say 0
        at_limit = reason in NO_REASON and max_tokens is not None and (share or 0) >= max_tokens
        ending = "length" if reason in CUT or at_limit else "stop"
        found.append(Completion(text, ids, _logprobs(choice, ids), ending, prompt or None, share))
    return found


def _reason(choice: dict) -> str:
    """Return the reason for which a generation ended, in lower case. Raises ModelError if the model did not end it."""
    given = choice.get("finish_reason")
    given = given.get("type") if isinstance(given, dict) else given
    reason = str(given).lower().removeprefix("finish_reason_").partition(":")[0].strip()
    if reason in BROKEN:
        raise ModelError("server", f"the server broke the generation off: its finish_reason is {given!r}.", True)
    if reason in FILTERED:
        raise ModelError("filtered", f"the server's content filter refused this dialogue (finish_reason {given!r}).")
    return reason


def _text(choice: dict, kind: str, reason: str) -> str:
    message = choice.get("message") if kind == "chat" else choice
    if not isinstance(message, dict):
        raise _malformed("the server's reply has no message")
    if message.get("refusal"):
        raise ModelError("filtered", "the server's content filter refused this dialogue.")
    text = message.get("content" if kind == "chat" else "text")
    if isinstance(text, list) and all(isinstance(part, dict | str) for part in text):
        parts = [{"text": part} if isinstance(part, str) else part for part in text]
        said = [part.get("text") for part in parts if part.get("type") in (None, "text", "output_text")]
        text = "".join(part for part in said if isinstance(part, str))
    if text is None and reason in ENDED:
        return ""
    if not isinstance(text, str):
        found = "null" if text is None else type(text).__name__
        given = choice.get("finish_reason")  # as written, so that a key in it is recognised and masked
        raise _malformed(f"the server's reply has no text: its content is {found}, its finish_reason {given!r}")
    return text


def _token_ids(choice: dict, reason: str, chat: ChatFormat) -> list[int] | None:
    """Return the sampled ids; None if the server reports none, or not the one with which the model ended its reply.

    Raises ModelError for ids that the model does not have.
    """
    ids = choice.get("token_ids")
    if not (isinstance(ids, list) and ids and all(type(token) is int for token in ids)):
        return None
    if not all(0 <= token < chat.vocabulary for token in ids):
        raise _malformed(f"the server's reply has token ids that {chat.name} does not know")
    # A text at which the request had the server stop, in the words of vLLM and of SGLang.
    at_a_text = any(isinstance(choice.get(name), str) for name in ("stop_reason", "matched_stop"))
    return ids if reason in CUT or at_a_text or ids[-1] in chat.eos_ids else None


def _logprobs(choice: dict, ids: list[int] | None) -> list[float] | None:
    """Return the log-probs of a text completion, if there is one for each token. Raises ModelError for null and NaN."""
    reported = choice.get("logprobs")
    logprobs = reported.get("token_logprobs") if isinstance(reported, dict) else None
    if not isinstance(logprobs, list):
        return None
    if not all(type(value) in (int, float) and math.isfinite(value) for value in logprobs):
        raise _malformed("a log-prob in the server's reply is no number")
    return logprobs if logprobs and (ids is None or len(logprobs) == len(ids)) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None  # a number that every JSON reader takes


def _malformed(what: str) -> ModelError:
    return ModelError("malformed", f"{what}.", retryable=True)
