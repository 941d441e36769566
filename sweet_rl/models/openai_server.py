"""A model on any server with the OpenAI API (vLLM, transformers serve, hosted models).

With a tokenizer the prompt is sent as token ids (`/v1/completions`), so that the server continues exactly the ids that
training sees; the sampled ids are returned if the server reports them (vLLM does). Without a tokenizer the messages
are sent to `/v1/chat/completions` and the server applies its chat template.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import openai

from sweet_rl.chat import ChatFormat, parts_text
from sweet_rl.errors import UserError
from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.models.calls import Calls
from sweet_rl.models.endpoints import Endpoint, Endpoints
from sweet_rl.models.hosts import Hosts
from sweet_rl.models.replies import completions
from sweet_rl.models.request_body import RequestBody
from sweet_rl.records import Message, Part

logger = logging.getLogger(__name__)
HOSTED = "https://api.openai.com/v1"
PATHS = {"chat": "/chat/completions", "text": "/completions"}
PROBE_SECONDS = 60.0  # a busy server answers late, one that is gone refuses at once
FIRST_WAIT = 0.5  # seconds before the second attempt of a call, at most; doubled for each further one


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
        attempts: Largest number of calls for one reply.
        overloaded_attempts: The same for calls that fail because the server is overloaded.
        longest_wait: Upper bound of the wait between two of them, in seconds, unless the server asks for a longer one.
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
        attempts: int = 6,
        overloaded_attempts: int = 30,
        longest_wait: float = 30.0,
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
        self.endpoints = Endpoints(Hosts(hostnames or [HOSTED]), self._probe, concurrency, patience)
        self._attempts, self._overloaded_attempts, self._longest_wait = attempts, overloaded_attempts, longest_wait
        self._calls = Calls(api_key, timeout)
        self._body = RequestBody(model, request)

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
        await self._calls.close()

    def _plain_prompt(self, parts: list[Part]) -> str:
        """Return the prompt for a server that tokenises it, without the BOS that the server will add."""
        text = parts_text(parts)
        if self.chat is None or not self.chat.bos_text:
            return text
        tokenizer = self.chat.tokenizer
        adds_bos = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
        return text.removeprefix(self.chat.bos_text) if adds_bos else text

    async def _replies(
        self, kind: str, prompt: dict[str, Any], sampling: Sampling, text: str | None = None
    ) -> list[Completion]:
        """Return `sampling.n` replies from one call, or from n calls if the server gives one reply per call.

        Args:
            kind: A key of PATHS.
            prompt: Fields of the body beside the sampling settings.
            sampling: The sampling settings.
            text: The prompt as text, for a server that takes no token ids.
        """
        if sampling.n == 1 or not self._body.one_at_a_time:
            found = await self._ask(kind, prompt, sampling, text)
            if sampling.n == 1 or len(found) != 1:
                return found
            if not self._body.one_at_a_time:
                logger.warning("%s gives one reply per call: %d calls per request from now on", self.model, sampling.n)
            self._body.one_at_a_time = True
        single = [replace(sampling, n=1, seed=sampling.seed + number) for number in range(sampling.n)]
        replies = await asyncio.gather(*(self._ask(kind, prompt, one, text) for one in single))
        return [reply for (reply,) in replies]

    async def _ask(self, kind: str, prompt: dict[str, Any], sampling: Sampling, text: str | None) -> list[Completion]:
        """Make one call, again after retryable errors, and again without the parameters that the server refuses.

        Raises:
            ModelError: There is no reply; the last error.
            UserError: The server asks for a longer wait than `patience`.
        """
        failures = {True: 0, False: 0}  # by whether the server was overloaded
        while True:
            sent = self._body.build(prompt, sampling, text)
            try:
                async with self.endpoints.free_endpoint() as endpoint:
                    try:
                        answer = await self._calls.call(endpoint.url, PATHS[kind], sent)
                    except ModelError as error:
                        if not self._body.adapt(error, sent):
                            raise
                        continue
                    return completions(answer, sampling.n, kind, self.chat)
            except ModelError as error:
                self._explain_auth_error(error, endpoint, kind)
                if (error.retry_after or 0.0) > self.endpoints.patience:
                    raise UserError(
                        f"{endpoint.url} asks to wait for {error.retry_after:.0f} s ({error}). Give the same "
                        "command again then: it continues."
                    ) from error
                overloaded = error.kind == "overloaded"
                failures[overloaded] += 1
                most = self._overloaded_attempts if overloaded else self._attempts
                if not error.retryable or failures[overloaded] >= most:
                    raise
                wait = max(backoff(max(failures.values()), self._longest_wait), error.retry_after or 0.0)
                logger.info("%s (%s); next attempt in %.1f s", error.kind, error, wait)
                await asyncio.sleep(wait)

    def _explain_auth_error(self, error: ModelError, endpoint: Endpoint, kind: str) -> None:
        """Make an auth error retryable if it may be temporary: the server has answered before, or is one of several."""
        if error.kind == "auth":
            error.retryable = endpoint.works or len(self.endpoints.all) > 1
            if isinstance(error.__cause__, openai.NotFoundError) and kind == "text" and not endpoint.works:
                error.args = (f"{error} (A server that has no {PATHS['text']} needs the tokenizer `none`.)",)

    async def _probe(self, url: str) -> None:
        """Ask the server at `url` for its models.

        A server need not list its models, and `transformers serve` without a cache folder answers 500.

        Raises:
            ModelError: The server does not answer, refuses the key, or serves other models only (kind auth).
        """
        try:
            answer = await self._calls.call(url, "/models", timeout=PROBE_SECONDS)
        except ModelError as error:
            status = getattr(error.__cause__, "status_code", None)
            if status in (None, 401, 403) or (error.retryable and status != 500):
                raise
            return
        listed = answer.get("data")
        served = [one.get("id") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        if served and self.model not in served:
            shown = ", ".join(map(str, served[:5]))
            raise ModelError("auth", f"the server at {url} does not serve {self.model!r}; it serves {shown}.")


def backoff(failures: int, longest: float) -> float:
    """Return a random wait after so many failures, in seconds, at most `longest`."""
    bound = min(longest, FIRST_WAIT * 2.0 ** (failures - 1))
    return random.uniform(bound / 2, bound)
