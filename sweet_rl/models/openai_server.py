"""A model on any server with the OpenAI API (vLLM, transformers serve, hosted models).

With a tokenizer the prompt is sent as token ids (`/v1/completions`), so that the server continues exactly the ids that
training sees; the sampled ids are returned if the server reports them (vLLM does). Without a tokenizer the messages
are sent to `/v1/chat/completions` and the server applies its chat template.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweet_rl.chat import ChatFormat, parts_text
from sweet_rl.errors import UserError
from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.models.endpoints import Endpoint, Endpoints
from sweet_rl.models.hosts import Hosts
from sweet_rl.models.http_calls import ApiError, HttpCalls
from sweet_rl.models.replies import chat_completions, text_completions
from sweet_rl.models.retries import RetryPolicy
from sweet_rl.records import Message, Part

logger = logging.getLogger(__name__)
HOSTED = "https://api.openai.com/v1"
NOT_EVERYWHERE = ("return_token_ids", "logprobs", "seed", "top_p", "temperature", "n")
PATHS = {"chat": "/chat/completions", "text": "/completions"}
PROBE_SECONDS = 10.0


class OpenAIServer:
    """One model on one or several servers; each call goes to the server with the fewest calls in progress.

    A feature that a server lacks is given up from then on, with a warning: a parameter that the server refuses by name
    (hosted reasoning models refuse temperature) is left out, `max_tokens` becomes `max_completion_tokens`, token ids as
    the prompt become the same text, and `n` replies become n calls. Seeds are sent modulo 2**31.

    Args:
        model: The name under which the servers know it.
        hostnames: Hosts (`node1`, `node1:8001`: http, port 8000 by default), full base URLs, or `@FILE` with one of
            these per line, which is read again when it changes. Empty: OpenAI's own API.
        api_key: Sent as the bearer token; local servers need none.
        chat: The model's chat format, for exact token ids.
        timeout: Seconds for one call.
        retries: When failed calls are repeated.
        concurrency: Largest number of calls that one server has in progress.
        patience: Seconds without any server that answers, or that a server asks to wait, after which the run ends
            with a UserError.
        request: Fields of every request body, which override all others; None leaves a field out
            ({"temperature": None, "reasoning_effort": "low"}).

    Raises:
        UserError: A hostname is no server, or OpenAI's own API has no key.
    """

    def __init__(
        self,
        model: str,
        hostnames: Sequence[str] = (),
        api_key: str | None = None,
        chat: ChatFormat | None = None,
        timeout: float = 600.0,
        retries: RetryPolicy | None = None,
        concurrency: int = 256,
        patience: float = 600.0,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        if not hostnames and not api_key:
            raise UserError(
                "the hosted API needs a key: put it into the environment variable OPENAI_API_KEY, or name a server."
            )
        self.model = model
        self.chat = chat
        self.retries = retries or RetryPolicy()
        self.request = dict(request or {})
        self.endpoints = Endpoints(Hosts(hostnames or [HOSTED]), self._probe, concurrency, patience)
        self._http = HttpCalls(api_key, timeout)
        self._left_out: set[str] = set()
        self._text_only = self._one_at_a_time = False
        self._token_limit = "max_tokens"

    async def check(self) -> None:
        """Ask every server for its models, and suspend those that do not answer, with a warning.

        Raises:
            UserError: No server answers, or one refuses the key or serves other models only.
        """
        endpoints = self.endpoints.all
        results = await asyncio.gather(*(self._probe(one.url) for one in endpoints), return_exceptions=True)
        failures = {one: result for one, result in zip(endpoints, results, strict=True) if result is not None}
        for endpoint, failure in failures.items():
            if not isinstance(failure, ModelError):
                raise failure
            if failure.kind == "auth":
                raise UserError(f"the server at {endpoint.url} refuses the key or the model. {failure}") from failure
        if len(failures) == len(endpoints):
            raise UserError(
                f"no server answers at {', '.join(one.url for one in endpoints)} ({next(iter(failures.values()))}). "
                f"Start one (for example `vllm serve {self.model}`) or correct the hostname."
            )
        for endpoint, failure in failures.items():
            self.endpoints.suspend(endpoint, str(failure))

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        if self.chat is not None:
            return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)
        plain = [{"role": message["role"], "content": message["content"]} for message in messages]
        return await self._replies("chat", {"messages": plain}, sampling)

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        prompt = parts_text(parts) if self.chat is None else self.chat.encode(parts, tokenizer)[0]
        request = {"prompt": prompt, "logprobs": 0, "return_token_ids": True}
        return await self._replies("text", request, sampling, self._plain_prompt(parts))

    def summary(self) -> dict[str, Any]:
        """Return calls, failures and latency percentiles of each server, by its URL."""
        return {"servers": self.endpoints.summary()}

    async def close(self) -> None:
        await self.endpoints.close()
        await self._http.close()

    def _plain_prompt(self, parts: list[Part]) -> str:
        """Return the prompt for a server that tokenises it, without the BOS that the server will add."""
        text = parts_text(parts)
        if self.chat is None or not self.chat.bos_text:
            return text
        tokenizer = self.chat.tokenizer
        adds_bos = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
        return text.removeprefix(self.chat.bos_text) if adds_bos else text

    async def _replies(
        self, kind: str, request: dict[str, Any], sampling: Sampling, text: str | None = None
    ) -> list[Completion]:
        """Return `sampling.n` replies from one call, or from n calls if the server gives one reply per call."""
        if sampling.n == 1 or not self._one_at_a_time:
            found = await self.retries.call(lambda: self._ask(kind, request, sampling, text))
            if sampling.n == 1 or len(found) != 1:
                return found
            if not self._one_at_a_time:
                logger.warning("%s gives one reply per call: %d calls per request from now on", self.model, sampling.n)
            self._one_at_a_time = True

        def one(number: int) -> Any:
            own = replace(sampling, n=1, seed=sampling.seed + number)
            return self.retries.call(lambda: self._ask(kind, request, own, text))

        return [reply for replies in await asyncio.gather(*map(one, range(sampling.n))) for reply in replies]

    async def _ask(
        self, kind: str, request: dict[str, Any], sampling: Sampling, text: str | None
    ) -> list[Completion]:
        """Make one call, repeated without the parameters that the server refuses.

        Args:
            kind: A key of PATHS.
            request: Fields of the body beside the sampling settings.
            sampling: The sampling settings.
            text: The prompt as text, for a server that takes no token ids.

        Raises:
            ModelError: There is no reply.
            UserError: The server asks for a longer wait than `patience`.
        """
        while True:
            sent = self._body(request, sampling, text)
            endpoint = await self.endpoints.take()
            start, held = time.monotonic(), True
            try:
                answer = await self._http.post(endpoint.url + PATHS[kind], sent)
                if kind == "chat":
                    found = chat_completions(answer, sampling.n)
                else:
                    found = text_completions(answer, sampling.n, self.chat)
                held = False
                self.endpoints.give_back(endpoint, time.monotonic() - start)
                return found
            except ModelError as error:
                if isinstance(error, ApiError) and self._adapt(error, sent):
                    continue
                held = False
                self._mark_auth_error(error, endpoint, kind)
                self.endpoints.give_back(endpoint, time.monotonic() - start, error)
                if (error.retry_after or 0.0) > self.endpoints.patience:
                    raise UserError(
                        f"{endpoint.url} asks to wait for {error.retry_after:.0f} s ({error}). Give the same "
                        "command again then: it continues."
                    ) from error
                raise
            finally:
                if held:
                    self.endpoints.release(endpoint)

    def _body(self, request: dict[str, Any], sampling: Sampling, text: str | None) -> dict[str, Any]:
        body = request | {
            "model": self.model,
            self._token_limit: sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "n": sampling.n,
            "seed": sampling.seed % 2**31,
        }
        if self._text_only and text is not None:
            body["prompt"] = text
        for name in self._left_out:
            body.pop(name, None)
        return {name: value for name, value in (body | self.request).items() if value is not None}

    def _mark_auth_error(self, error: ModelError, endpoint: Endpoint, kind: str) -> None:
        """Make an auth error retryable if it may be temporary: the server has answered before, or is one of several."""
        if error.kind == "auth":
            error.retryable = endpoint.works or len(self.endpoints.all) > 1
            if getattr(error, "status", 0) == 404 and kind == "text" and not endpoint.works:
                error.args = (f"{error} (A server that has no {PATHS['text']} needs the tokenizer `none`.)",)

    def _adapt(self, error: ApiError, sent: dict[str, Any]) -> bool:
        """Return whether the server named a parameter that it does not take and that the next call can omit."""
        if error.status not in (400, 422):
            return False
        text = str(error)
        if isinstance(sent.get("prompt"), list) and "prompt" in text and "string" in text:
            if not self._text_only:
                logger.warning("%s takes no token ids, so it tokenises the prompts itself (%s)", self.model, text[:200])
            self._text_only = True
            return True
        if "max_completion_tokens" in text and "max_tokens" in sent:
            self._token_limit = "max_completion_tokens"
            return "max_tokens" not in self.request
        words = _words(text)
        named = [name for name in NOT_EVERYWHERE if name in sent and (error.param == name or name in words)]
        named = [name for name in named if name not in self.request]
        if not named:
            return False
        if new := [name for name in named if name not in self._left_out]:
            logger.warning("%s does not take %s: left out from now on (%s)", self.model, ", ".join(new), text[:200])
        self._left_out.update(named)
        self._one_at_a_time |= "n" in named
        return True

    async def _probe(self, url: str) -> None:
        """Ask the server at `url` for its models.

        A server need not list its models, and `transformers serve` without a cache folder answers 500.

        Raises:
            ModelError: The server does not answer, refuses the key, or serves other models only (kind auth).
        """
        try:
            answer = await self._http.get(f"{url}/models", PROBE_SECONDS)
        except ApiError as error:
            if error.status in (401, 403) or (error.retryable and error.status != 500):
                raise
            return
        listed = answer.get("data")
        served = [one.get("id") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        if served and self.model not in served:
            shown = ", ".join(map(str, served[:5]))
            raise ModelError("auth", f"the server at {url} does not serve {self.model!r}; it serves {shown}.")


def _words(text: str) -> set[str]:
    """Return the words of a message that may be parameter names; a single letter must be in quotation marks."""
    return set(re.findall(r"\w{2,}|(?<=['\"`])\w(?=['\"`])", text))
