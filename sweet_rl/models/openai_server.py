"""A model behind any server that speaks the OpenAI API (vLLM, transformers serve, hosted models).

With a tokenizer at hand the prompt goes out as token ids (`/v1/completions`), so that the server continues
exactly the ids that training sees, and the sampled ids come back where the server can say them (vLLM can).
Without one the messages go to `/v1/chat/completions` and the server lays them out.
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
from sweet_rl.models.api_errors import ApiError
from sweet_rl.models.base import Completion, Message, ModelError, Part, Sampling
from sweet_rl.models.endpoints import Endpoint, Endpoints
from sweet_rl.models.hosts import Hosts
from sweet_rl.models.http_calls import HttpCalls
from sweet_rl.models.replies import chat_completions, text_completions
from sweet_rl.models.retries import RetryPolicy

logger = logging.getLogger(__name__)
HOSTED = "https://api.openai.com/v1"
NOT_EVERYWHERE = ("return_token_ids", "logprobs", "seed", "top_p", "temperature", "n")
PATHS = {"chat": "/chat/completions", "text": "/completions"}
PROBE_SECONDS = 10.0


class OpenAIServer:
    """One model on one or several servers; each call goes to the server with the fewest calls under way.

    Args:
        model: the name under which the servers know it.
        hostnames: hosts (`node1`, `node1:8001`: http, port 8000 by default), full base URLs, or `@FILE` with one of
            these a line, which is read again when it changes. Empty: OpenAI's own API.
        api_key: sent as the bearer token; local servers need none.
        chat: the model's chat format, for exact token ids.
        timeout: seconds for one call.
        concurrency: calls that one server has under way at most.
        patience: seconds without any server that answers, or that a server asks to wait, after which the run ends
            with a UserError.
        request: fields of every request body, above all others; None leaves a field out ({"temperature": None,
            "reasoning_effort": "low"}).

    What a server cannot do is done without from then on, with a warning: a parameter that it refuses by name
    (hosted reasoning models refuse temperature) is left out, `max_tokens` becomes `max_completion_tokens`; token ids
    as the prompt become the same text; `n` replies become n calls where one call gives one. The reply's seed is kept
    within 31 bits, which every server takes. Raises UserError for what is no server, and for OpenAI's API without
    a key.
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
        """Asks every server for its models. One that does not answer is left out, with a warning; raises UserError if
        none answers, or one refuses the key or has other models only."""
        endpoints = self.endpoints.all
        results = await asyncio.gather(*(self._probe(one.url) for one in endpoints), return_exceptions=True)
        troubles = {one: result for one, result in zip(endpoints, results, strict=True) if result is not None}
        for endpoint, trouble in troubles.items():
            if not isinstance(trouble, ModelError):
                raise trouble
            if trouble.kind == "auth":
                raise UserError(f"the server at {endpoint.url} refuses the key or the model. {trouble}") from trouble
        if len(troubles) == len(endpoints):
            raise UserError(
                f"no server answers at {', '.join(one.url for one in endpoints)} ({next(iter(troubles.values()))}). "
                f"Start one (for example `vllm serve {self.model}`) or correct the hostname."
            )
        for endpoint, trouble in troubles.items():
            self.endpoints.leave_out(endpoint, str(trouble))

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
        """Calls, failures and latency percentiles of each server, by its URL."""
        return {"servers": self.endpoints.summary()}

    async def close(self) -> None:
        await self.endpoints.close()
        await self._http.close()

    def _plain_prompt(self, parts: list[Part]) -> str:
        """The prompt for a server that tokenises by itself, without the BOS that it will put in front."""
        text = parts_text(parts)
        if self.chat is None or not self.chat.bos_text:
            return text
        tokenizer = self.chat.tokenizer
        adds_bos = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
        return text.removeprefix(self.chat.bos_text) if adds_bos else text

    async def _replies(
        self, kind: str, request: dict[str, Any], sampling: Sampling, text: str | None = None
    ) -> list[Completion]:
        """`sampling.n` replies, from one call, or from n calls to a server that gives one a call."""
        if sampling.n == 1 or not self._one_at_a_time:
            found = await self.retries.call(lambda: self._ask(kind, request, sampling, text))
            if sampling.n == 1 or len(found) != 1:
                return found
            if not self._one_at_a_time:
                logger.warning("%s gives one reply a call: asked %d times from now on", self.model, sampling.n)
            self._one_at_a_time = True

        def one(number: int) -> Any:
            own = replace(sampling, n=1, seed=sampling.seed + number)
            return self.retries.call(lambda: self._ask(kind, request, own, text))

        return [reply for replies in await asyncio.gather(*map(one, range(sampling.n))) for reply in replies]

    async def _ask(
        self, kind: str, request: dict[str, Any], sampling: Sampling, text: str | None
    ) -> list[Completion]:
        """One call, repeated at once without what the server refuses to be told; `text` is the prompt for one that
        takes no token ids. Raises ModelError."""
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
                self._weigh(error, endpoint, kind)
                self.endpoints.give_back(endpoint, time.monotonic() - start, error)
                if (error.retry_after or 0.0) > self.endpoints.patience:
                    raise UserError(
                        f"{endpoint.url} asks to be left alone for {error.retry_after:.0f} s ({error}). Give the same "
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

    def _weigh(self, error: ModelError, endpoint: Endpoint, kind: str) -> None:
        """A server that has answered before, or has others beside it, may refuse the key or the model for a moment
        only."""
        if error.kind == "auth":
            error.retryable = endpoint.works or len(self.endpoints.all) > 1
            if getattr(error, "status", 0) == 404 and kind == "text" and not endpoint.works:
                error.args = (f"{error} (A server that has no {PATHS['text']} needs the tokenizer `none`.)",)

    def _adapt(self, error: ApiError, sent: dict[str, Any]) -> bool:
        """Whether the server named a parameter it does not take, so that the call may be made without it."""
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
        """Raises ModelError if the server does not answer, refuses the key (kind auth), or serves other models
        only (kind auth). A server need not list its models, and `transformers serve` without a cache folder breaks on
        the question (500)."""
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
    """The words of a message that may be names of parameters; a single letter only in quotation marks."""
    return set(re.findall(r"\w{2,}|(?<=['\"`])\w(?=['\"`])", text))
