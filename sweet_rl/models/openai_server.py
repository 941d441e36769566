"""A model behind any server that speaks the OpenAI API (vLLM, transformers serve, hosted models).

With a tokenizer at hand the prompt goes out as token ids (`/v1/completions`), so that the server continues
exactly the ids that training sees, and the sampled ids come back where the server can say them (vLLM can).
Without one the messages go to `/v1/chat/completions` and the server lays them out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import openai

from sweet_rl.chat import ChatFormat, parts_text
from sweet_rl.errors import UserError
from sweet_rl.models.base import Completion, Message, ModelError, Part, Sampling
from sweet_rl.models.retries import RetryPolicy

logger = logging.getLogger(__name__)
NOT_EVERYWHERE = ("return_token_ids", "logprobs", "seed", "top_p", "temperature")
CONTEXT_WORDS = (
    "context length",
    "context_length",
    "max_model_len",
    "too long",
    "maximum context",
    "context window",
)


class OpenAIServer:
    """One model on one or several servers; each call goes to the server with the fewest calls under way.

    Args:
        model: the name under which the servers know it.
        hostnames: hosts (`node1`, `node1:8001`: http, port 8000 by default) or full base URLs. Empty: the
            hosted API.
        api_key: sent as the bearer token; local servers need none.
        chat: the model's chat format, for exact token ids.
        timeout: seconds for one call.

    What a server cannot do is done without from then on, with a warning: a parameter that it refuses by name
    (hosted reasoning models refuse temperature) is left out; token ids as the prompt become the same text; `n`
    replies become n calls where one call gives one. The reply's seed is kept within 31 bits, which every server takes.
    """

    def __init__(
        self,
        model: str,
        hostnames: Sequence[str] = (),
        api_key: str | None = None,
        chat: ChatFormat | None = None,
        timeout: float = 600.0,
        retries: RetryPolicy | None = None,
    ) -> None:
        self.model = model
        self.chat = chat
        self.retries = retries or RetryPolicy()
        urls = [base_url(name) for name in hostnames] or [None]
        try:
            self._clients = [
                openai.AsyncOpenAI(
                    base_url=url,
                    api_key=api_key or (None if url is None else "none"),
                    timeout=timeout,
                    max_retries=0,
                )
                for url in urls
            ]
        except openai.OpenAIError as error:
            raise UserError(f"the hosted API cannot be used: {error}") from error
        self._under_way = [0] * len(urls)
        self._left_out: set[str] = set()
        self._text_only = self._one_at_a_time = False
        self._token_limit = "max_tokens"

    async def check(self) -> None:
        """Raises UserError if a server does not answer, or says that it has other models only."""
        for client in self._clients:
            try:
                served = [model.id for model in (await client.models.list()).data]
            except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
                raise UserError(f"the server at {client.base_url} refuses the API key: {error}") from error
            except openai.APIConnectionError as error:
                raise UserError(
                    f"no server answers at {client.base_url} ({error.__cause__ or error}). Start one "
                    "(for example "
                    f"`vllm serve {self.model}`) or correct the hostname."
                ) from error
            except openai.OpenAIError:
                continue  # not every server lists its models
            if served and self.model not in served:
                raise UserError(
                    f"the server at {client.base_url} does not serve {self.model!r}; it serves {', '.join(served[:5])}."
                )

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        if self.chat is not None:
            return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)
        plain = [{"role": message["role"], "content": message["content"]} for message in messages]

        async def ask() -> list[Completion]:
            choices = await self._choices("chat", {"messages": plain}, sampling)
            return [self._chat_completion(choice, share) for choice, share in choices]

        return await self.retries.call(ask)

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        prompt = parts_text(parts) if self.chat is None else self.chat.encode(parts, tokenizer)[0]
        request = {"prompt": prompt, "logprobs": 0, "return_token_ids": True}

        async def ask() -> list[Completion]:
            choices = await self._choices("text", request, sampling, self._plain_prompt(parts))
            return [self._text_completion(choice, share) for choice, share in choices]

        return await self.retries.call(ask)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    def _plain_prompt(self, parts: list[Part]) -> str:
        """The prompt for a server that tokenises by itself, without the BOS that it will put in front."""
        text = parts_text(parts)
        if self.chat is None or not self.chat.bos_text:
            return text
        tokenizer = self.chat.tokenizer
        adds_bos = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
        return text.removeprefix(self.chat.bos_text) if adds_bos else text

    async def _choices(
        self, kind: str, request: dict[str, Any], sampling: Sampling, text: str | None = None
    ) -> list[tuple[Any, tuple[int, int]]]:
        """The choices of `sampling.n` replies, from one call, or from n calls to a server that gives one a call."""
        if sampling.n == 1 or not self._one_at_a_time:
            response = await self._call(kind, request | self._settings(sampling), text)
            if sampling.n == 1 or len(getattr(response, "choices", None) or []) != 1:
                return _shares(response, sampling.n)
            logger.warning("%s gives one reply a call: asked %d times from now on", self.model, sampling.n)
            self._one_at_a_time = True
        each = [replace(sampling, n=1, seed=sampling.seed + number) for number in range(sampling.n)]
        responses = await asyncio.gather(*(self._call(kind, request | self._settings(one), text) for one in each))
        return [_shares(response, 1)[0] for response in responses]

    def _settings(self, sampling: Sampling) -> dict[str, Any]:
        return {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "n": sampling.n,
            "seed": sampling.seed % 2**31,
        }

    async def _call(self, kind: str, request: dict[str, Any], text: str | None = None) -> Any:
        """One call, repeated at once without what the server refuses to be told; `text` is the prompt for one that
        takes no token ids. Raises ModelError."""
        place = self._under_way.index(min(self._under_way))
        client = self._clients[place]
        create = client.chat.completions.create if kind == "chat" else client.completions.create
        self._under_way[place] += 1
        try:
            while True:
                sent = {name: value for name, value in request.items() if name not in self._left_out}
                sent[self._token_limit] = sent.pop("max_tokens")
                if self._text_only and text is not None:
                    sent["prompt"] = text
                own = {name: sent.pop(name) for name in ("return_token_ids",) if name in sent}
                try:
                    return await create(model=self.model, extra_body=own or None, **sent)
                except openai.OpenAIError as error:
                    if not self._adapt(error, sent | own):
                        raise _typed(error) from error
                except ValueError as error:
                    raise ModelError("malformed", f"the server's reply is not JSON: {error}", retryable=True) from error
        finally:
            self._under_way[place] -= 1

    def _adapt(self, error: openai.OpenAIError, sent: dict[str, Any]) -> bool:
        """Whether the server named a parameter it does not take, so that the call may be made without it."""
        if not isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError):
            return False
        text = _message(error)
        if isinstance(sent.get("prompt"), list) and "prompt" in text and "string" in text:
            logger.warning("%s takes no token ids, so it tokenises the prompts itself (%s)", self.model, text[:200])
            self._text_only = True
            return True
        if "max_completion_tokens" in text and "max_tokens" in sent:
            self._token_limit = "max_completion_tokens"
            return True
        named = [name for name in NOT_EVERYWHERE if name in sent and (error.param == name or name in text)]
        if not named:
            return False
        logger.warning("%s does not take %s: left out from now on (%s)", self.model, ", ".join(named), text[:200])
        self._left_out.update(named)
        return True

    def _chat_completion(self, choice: Any, usage: tuple[int, int]) -> Completion:
        message = choice.message
        if choice.finish_reason == "content_filter" or (message is not None and getattr(message, "refusal", None)):
            raise ModelError("refused", "the server's content filter refused this dialogue.")
        if message is None or not isinstance(message.content, str):
            raise ModelError("malformed", "the server's reply has no text.", retryable=True)
        return Completion(message.content, None, None, _reason(choice.finish_reason), *usage)

    def _text_completion(self, choice: Any, usage: tuple[int, int]) -> Completion:
        if choice.finish_reason == "content_filter":
            raise ModelError("refused", "the server's content filter refused this dialogue.")
        if not isinstance(choice.text, str):
            raise ModelError("malformed", "the server's reply has no text.", retryable=True)
        ids = getattr(choice, "token_ids", None)
        ids = list(ids) if ids and self.chat is not None else None
        logprobs = list(getattr(choice.logprobs, "token_logprobs", None) or [])
        if any(value is None for value in logprobs) or (ids is not None and len(logprobs) != len(ids)):
            logprobs = []
        text = choice.text if ids is None else self.chat.decode(ids)
        counts = usage if ids is None else (usage[0], len(ids))
        return Completion(text, ids, logprobs or None, _reason(choice.finish_reason), *counts)


def base_url(hostname: str) -> str:
    """`http://host:8000/v1` from a host, a host with a port, or a full URL (taken as it is)."""
    name = hostname.strip().rstrip("/")
    if not name:
        raise UserError("an empty hostname; give host, host:port or a full URL, several separated by commas.")
    if "://" in name:
        return name
    return f"http://{name if ':' in name else f'{name}:8000'}/v1"


def _reason(finish_reason: str | None) -> str:
    return "length" if finish_reason == "length" else "stop"


def _shares(response: Any, count: int) -> list[tuple[Any, tuple[int, int]]]:
    """The response's choices in order, each with (prompt tokens, its share of the completion tokens)."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or len(choices) != count:
        found = "no choices" if not isinstance(choices, list) else f"{len(choices)} choices"
        raise ModelError("malformed", f"{found} in the server's reply, asked for {count}.", retryable=True)
    usage = getattr(response, "usage", None)
    prompt, made = getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0
    ordered = sorted(choices, key=lambda choice: choice.index or 0)
    return [(choice, (prompt, made // count + (place < made % count))) for place, choice in enumerate(ordered)]


def _message(error: openai.OpenAIError) -> str:
    """The error's text, with what the server said where it does not say it in OpenAI's form."""
    text, body = str(error) or type(error).__name__, getattr(error, "body", None)
    said = body.get("detail", body) if isinstance(body, dict) else body
    known = not said or str(said) in text or isinstance(said, dict) and said.get("message")
    return text if known else f"{text}: {said}"


def _typed(error: openai.OpenAIError) -> ModelError:
    """The server's or the connection's error as a ModelError."""
    text = _message(error)
    if isinstance(error, openai.APITimeoutError):
        return ModelError("timeout", text, retryable=True)
    if isinstance(error, openai.APIConnectionError):
        return ModelError("connection", f"{text} {error.__cause__ or ''}".strip(), retryable=True)
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return ModelError("auth", text)
    if isinstance(error, openai.APIStatusError) and type(error) is not openai.APIResponseValidationError:
        if error.status_code in (408, 409, 429) or error.status_code >= 500:
            kind = "overloaded" if error.status_code in (429, 503) else "server"
            return ModelError(
                kind, text, retryable=True, retry_after=_seconds(error.response.headers.get("retry-after"))
            )
        lower = text.lower()
        if error.status_code == 413 or any(words in lower for words in CONTEXT_WORDS):
            return ModelError("context", text)
        return ModelError("refused", text)
    return ModelError("malformed", text, retryable=True)


def _seconds(header: str | None) -> float | None:
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None
