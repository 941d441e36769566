"""A model on a server with the OpenAI API: vLLM, OpenAI, and what answers as they do.

With a tokenizer the prompt is sent as token ids (`/v1/completions`), so that the server continues exactly the ids that
training sees; the sampled ids are returned if the server reports them (vLLM does). Without a tokenizer the messages
are sent to `/v1/chat/completions` and the server applies its chat template.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sweet_rl.models.base import Completion, ModelError, Prompt, Sampling, is_ids, prompt_ids
from sweet_rl.models.server import Server
from sweet_rl.models.settings import HOSTED
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError

logger = logging.getLogger(__name__)
# Sent to vLLM and SGLang only, which otherwise apply the values in the model's generation_config.json.
PLAIN_SAMPLING = {"top_k": -1, "repetition_penalty": 1.0, "min_p": 0.0}
OPTIONAL = ("return_token_ids", "logprobs", *PLAIN_SAMPLING, "seed", "n", "top_p", "temperature")
"""Fields that are left out if a refusal names them. Another field is left out by `request`."""
OUTPUT_LIMIT = "max_tokens or model output limit was reached"  # OpenAI's refusal of a reply that was reasoning only


class OpenAIServer:
    """One model on a server (`Server`).

    Seeds are sent modulo 2**31. A server that gives one reply per call is called n times.

    Args:
        model: The name under which the server knows it.
        hostname: Host (`node1`, `node1:8001`: http, port 8000 by default) or full base URL. None: OpenAI's own API.
        api_key: Bearer token; a local server needs none.
        chat: The model's chat format, for exact token ids.
        request: Fields of every request body, which override all others; None leaves a field out
            ({"temperature": None, "reasoning_effort": "low"}).
        server_settings: Further arguments of `Server`.

    Raises:
        UserError: The hostname is no server, or OpenAI's own API has no key.
    """

    def __init__(
        self,
        model: str,
        hostname: str | None = None,
        api_key: str | None = None,
        chat: ChatFormat | None = None,
        request: Mapping[str, Any] | None = None,
        **server_settings: Any,
    ) -> None:
        if hostname is None and not api_key:
            raise UserError(
                "the hosted API needs a key: put it into the environment variable OPENAI_API_KEY, or name a server."
            )
        self.model, self.chat = model, chat
        if hostname is None and os.environ.get("OPENAI_BASE_URL", HOSTED).rstrip("/") != HOSTED:
            raise UserError(
                f"{model}: OPENAI_BASE_URL is set, which is not read. Give that address as the model's hostname, and "
                "name the variable of its key; or unset it to ask OpenAI."
            )
        self.server = Server(hostname or HOSTED, api_key, **server_settings)
        self._request = dict(request or {})
        self._left_out: set[str] = set()
        self._token_limit = "max_tokens"
        self._served_as: set[str] = set()

    async def check(self) -> None:
        """Ask the server for its models. Raises UserError if it does not answer, or has others only."""
        await self.server.check(self.model)

    async def complete(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        await self.check()  # which fields are sent depends on the server
        if self.chat is not None:
            prompt = prompt_ids(self.chat, prompt)
        elif is_ids(prompt):
            raise UserError(f"{self.model}: a prompt of token ids needs the model's tokenizer.")
        replies = await self._call(prompt, sampling)
        more = range(len(replies), sampling.n)
        single = [replace(sampling, n=1, seed=sampling.seed + number) for number in more]
        rest = await asyncio.gather(*(self._call(prompt, one) for one in single))
        return [*replies, *(reply for (reply,) in rest)]

    async def _call(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        """At most `sampling.n` replies, asked for without the fields that the server refuses."""
        path = "/completions" if is_ids(prompt) else "/chat/completions"
        while True:
            body = self._body(prompt, sampling)
            try:
                answer = await self.server.post(path, body)
                break
            except ModelError as error:
                if OUTPUT_LIMIT in str(error):
                    return [Completion("", None, None, "length")]
                if not self._leave_out(error, body):
                    raise
        read = (answer.get("usage") or {}).get("prompt_tokens") or len(prompt)
        if is_ids(prompt) and read != len(prompt):
            raise UserError(
                f"{self.model}: {len(prompt)} token ids were sent, and the server's usage.prompt_tokens says that it "
                f"read {read}. It cuts prompts (raise its context; num_ctx of Ollama) or lays them out anew (give the "
                "tokenizer `none`)."
            )
        self._served_as.add(str(answer.get("model") or self.model)[:200])
        return read_replies(answer, self.chat)[: sampling.n]

    def _body(self, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "n": sampling.n,
            "seed": sampling.seed % 2**31,
        }
        if self.server.is_open:
            body |= PLAIN_SAMPLING
        if is_ids(prompt):
            body |= {"prompt": prompt, "logprobs": 0}
            if self.server.is_open:
                body["return_token_ids"] = True
        else:
            body["messages"] = [{"role": message["role"], "content": message["content"]} for message in prompt]  # type: ignore[index]
            body[self._token_limit] = body.pop("max_tokens")
        body = {name: value for name, value in body.items() if name not in self._left_out} | self._request
        return {name: value for name, value in body.items() if value is not None}

    def _leave_out(self, error: ModelError, body: dict[str, Any]) -> bool:
        """Leave out the optional field that a refusal names, from now on; return whether it names one."""
        if error.kind != "refused":
            return False
        limited = "messages" in body and "max_tokens" in body and "max_tokens" not in self._request
        if limited and "max_completion_tokens" in str(error):
            self._token_limit = "max_completion_tokens"
            return True
        for name in OPTIONAL:
            # Names that a prompt may have as words are in quotes.
            pattern = rf"\b{name}\b" if "_" in name else rf"['\"`]{name}['\"`]"
            if name in body and name not in self._request and (error.param == name or re.search(pattern, str(error))):
                if name not in self._left_out:
                    logger.warning("%s: %s is not sent from now on (%s)", self.model, name, str(error)[:200])
                self._left_out.add(name)
                return True
        return False

    def summary(self) -> dict[str, Any]:
        """Return the calls and failures of the server by its URL, the fields that it refused (`left_out`), and
        other names that replies have for the model (`served_as`)."""
        summary: dict[str, Any] = {"servers": self.server.summary()}
        left_out = sorted(self._left_out)
        if self._token_limit != "max_tokens":
            left_out.append(f"max_tokens (sent as {self._token_limit})")
        if left_out:
            summary["left_out"] = left_out
        if self._served_as - {self.model}:
            summary["served_as"] = sorted(self._served_as)[:5]
        return summary

    async def close(self) -> None:
        await self.server.close()


def read_replies(answer: dict[str, Any], chat: ChatFormat | None = None) -> list[Completion]:
    """Return the replies in a response, in order, each with its share of the completion tokens.

    Token ids that the server reports need `chat`. Raises ModelError if there is no reply, the content filter refused
    one, or the server broke one off.
    """
    choices, usage = answer.get("choices"), answer.get("usage") or {}
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise ModelError("malformed", f"no reply in the server's answer: {str(answer)[:300]}", retryable=True)
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    replies = []
    for place, choice in enumerate(sorted(choices, key=lambda choice: choice.get("index") or 0)):
        reason, message = choice.get("finish_reason"), choice.get("message") or choice
        if reason in ("error", "abort"):
            raise ModelError("server", f"the server broke the reply off (finish_reason {reason!r}).", retryable=True)
        if reason == "content_filter" or message.get("refusal"):
            raise ModelError("filtered", "the server's content filter refused this dialogue.")
        text = message.get("content" if "message" in choice else "text") or ""
        if not isinstance(text, str):
            raise ModelError("malformed", f"the text of the server's reply is {type(text).__name__}.", retryable=True)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # lone surrogates are no text
        count = None if not written else written // len(choices) + (place < written % len(choices))
        ids = None if chat is None else _token_ids(choice, chat)
        if ids is not None and chat is not None:
            text, count = chat.decode(ids), len(ids)
        ending = "length" if reason == "length" else "stop"
        replies.append(Completion(text, ids, _logprobs(choice, ids), ending, read or None, count))
    return replies


def _token_ids(choice: dict[str, Any], chat: ChatFormat) -> list[int] | None:
    """The sampled ids; None if the server reports none, or leaves out the EOS that the model produced, without which
    training would see a reply without an end."""
    ids = choice.get("token_ids")
    if not isinstance(ids, list) or not ids:
        return None
    if not all(isinstance(token, int) and 0 <= token < chat.vocabulary for token in ids):
        raise ModelError("malformed", f"the server's reply has token ids that {chat.name} does not know.")
    cut = choice.get("finish_reason") == "length"
    stopped_by_text = isinstance(choice.get("stop_reason"), str)  # a stop string of the request
    return ids if cut or stopped_by_text or ids[-1] in chat.eos_ids else None


def _logprobs(choice: dict[str, Any], ids: list[int] | None) -> list[float] | None:
    """The log-probs of a text completion, if there is a finite one for each token."""
    logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
    if not logprobs or (ids is not None and len(logprobs) != len(ids)):
        return None
    return logprobs if all(isinstance(value, int | float) and math.isfinite(value) for value in logprobs) else None
