"""A model on any server with the OpenAI API (vLLM, transformers serve, hosted models).

With a tokenizer the prompt is sent as token ids (`/v1/completions`), so that the server continues exactly the ids that
training sees; the sampled ids are returned if the server reports them (vLLM does). Without a tokenizer the messages
are sent to `/v1/chat/completions` and the server applies its chat template.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import openai

from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.models.failures import SERVER_FAULTS, without_surrogates
from sweet_rl.models.hostnames import HOSTED
from sweet_rl.models.replies import completions
from sweet_rl.models.request_body import RequestBody
from sweet_rl.models.servers import Server, Servers
from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Message, Part

logger = logging.getLogger(__name__)
DRAWS = [Sampling(temperature=1.0, top_p=1.0, max_tokens=1, n=16, seed=16 * number) for number in range(8)]
PATHS = {"chat": "/chat/completions", "text": "/completions"}
OTHER_LIMIT = (
    "(If it wants max_completion_tokens, give --agent_request, --env_request, --model_request, --human_request or "
    """--request, whichever the script has: '{"max_tokens": null, "max_completion_tokens": 1024}'.)"""
)
MOST_NAMES, LONGEST_NAME = 5, 200  # of a model in replies
NO_TEXT = "(no text)"
OUTPUT_LIMIT = "max_tokens or model output limit was reached"  # OpenAI's refusal of a reply that was reasoning only


def sampled_otherwise(draws: Sequence[tuple[int, float]]) -> str:
    """What speaks against independent draws of (token, its log-prob) being sampled with these log-probs; "" if nothing.

    Given the set of tokens in the first half, the number of draws in the second half that fall into it is binomial,
    with the sum of the set's probabilities (at most 0.999: they are rounded). A count so far off comes once in a
    million times.
    """
    from scipy.stats import binomtest

    half = len(draws) // 2
    known = dict(draws[:half])
    share = min(0.999, sum(math.exp(logprob) for logprob in known.values()))
    found = sum(token in known for token, _ in draws[half:])
    if binomtest(found, len(draws) - half, share).pvalue > 1e-6:
        return ""
    return f"tokens of probability {share:.2f} in all came up {found} times of {len(draws) - half}"


@dataclass(frozen=True)
class _Prompt:
    """A prompt as a server gets it.

    Attributes:
        kind: Key of PATHS.
        fields: Fields of the body beside the sampling settings.
        text: The prompt as text, for a server that takes no token ids.
    """

    kind: str
    fields: dict[str, Any]
    text: str | None = None


class OpenAIServer:
    """One model on one or several servers (`Servers`).

    A feature that a server lacks is given up once a call without it is answered, with a warning: a parameter that the
    server refuses by name (hosted reasoning models refuse temperature) is left out, `max_tokens` becomes
    `max_completion_tokens`, token ids as the prompt become the same text, and `n` replies become n calls. Seeds are
    sent modulo 2**31.

    Args:
        model: The name under which the servers know it.
        hostnames: Hosts (`node1`, `node1:8001`: http, port 8000 by default) or full base URLs. Empty: OpenAI's own API.
        api_key: Bearer token; local servers need none.
        chat: The model's chat format, for exact token ids.
        request: Fields of every request body, which override all others; None leaves a field out
            ({"temperature": None, "reasoning_effort": "low"}).
        server_settings: Further arguments of `Servers`: timeout, concurrency, patience, pause.

    Raises:
        UserError: A hostname is no server, or OpenAI's own API has no key.
    """

    def __init__(
        self,
        model: str,
        hostnames: Sequence[str] = (),
        api_key: str | None = None,
        chat: ChatFormat | None = None,
        request: Mapping[str, Any] | None = None,
        **server_settings: Any,
    ) -> None:
        if not hostnames and not api_key:
            raise UserError(
                "the hosted API needs a key: put it into the environment variable OPENAI_API_KEY, or name a server."
            )
        self.model, self.chat = model, chat
        self._served_as: set[str] = set()
        self.servers = Servers(hostnames or [HOSTED], api_key, **server_settings)
        self._body = RequestBody(model, request, hosted=all(server.url == HOSTED for server in self.servers.all))

    async def check(self) -> None:
        """Ask every server for its models, and whether the log-probs that it returns are those of what it samples.

        A server that does not answer is named in a warning, and gets one call at a time until it answers. A server
        that does not list the model, as a gateway with aliases or a key that may not list, gets a call as a trial.

        Raises:
            UserError: No server answers, one refuses the key or the model, or its log-probs are those of another
                distribution.
        """
        servers = self.servers.all
        results = await asyncio.gather(*map(self._check_server, servers), return_exceptions=True)
        failures = []
        for server, result in zip(servers, results, strict=True):
            if isinstance(result, ModelError):
                failures.append(result)
                server.record_failure(result)
            elif isinstance(result, BaseException):
                raise result
        if len(failures) == len(servers):
            raise UserError(
                f"no server answers at {', '.join(server.url for server in servers)} ({failures[0]}). "
                f"Start one (for example `vllm serve {self.model}`) or correct the hostname.{self.servers.proxies()}"
            )
        await self._check_sampling()

    async def _check_sampling(self) -> None:
        """Draw the first token of a text many times. Servers that return no log-probs are believed."""
        if self.chat is None:
            return
        prompt = self._prompt([{"text": "The", "train": False}])
        try:
            found = await asyncio.gather(*(self._ask(prompt, sampling) for sampling in DRAWS))
        except ModelError:
            return  # what is wrong shows in the calls of the run
        replies = chain.from_iterable(found)
        tokens = [(reply.token_ids[0], reply.logprobs[0]) for reply in replies if reply.token_ids and reply.logprobs]
        if len(tokens) == sum(sampling.n for sampling in DRAWS) and (odd := sampled_otherwise(tokens)):
            raise UserError(
                f"{self.model} at {', '.join(server.url for server in self.servers.all)} does not sample from the "
                f"probabilities that it returns: {odd}. A server may apply the model's generation_config.json: "
                "start it with --generation-config vllm."
            )

    async def _check_server(self, server: Server) -> None:
        """Make a trial call to a server that does not list the model: it may have no list, or forbid or limit it.

        Raises:
            ModelError: The server does not answer.
            UserError: It refuses the key or the model.
        """
        listed = await self.servers.models(server)
        if self.model in listed:
            return
        messages: list[Message] = [{"role": "user", "content": "Hello."}]
        prompt = _Prompt("chat", {"messages": messages})
        if self.chat is not None:
            prompt = self._prompt(self.chat.prompt(messages))
        names = f"{self.model!r} among its models ({', '.join(listed[:5])})" if listed else "its models"
        try:
            await self._ask(prompt, Sampling(max_tokens=16), partial(self.servers.request, server))
        except ModelError as error:
            if error.kind in ("auth", "forbidden"):
                raise UserError(
                    f"{server.url} does not list {names}, and refuses a call to {self.model!r}, the key, or that there "
                    f"is none: {error} OPENAI_API_KEY is sent to OpenAI's own API only: for others name a variable "
                    "with --api_key_variable."
                ) from error
            if error.kind in SERVER_FAULTS and error.kind != "overloaded":
                raise
            if error.kind == "refused":
                raise UserError(f"{server.url} does not list {names}, and refused a call: {error}") from error
            logger.warning("%s does not list %s, and a trial call failed: %s", server.url, names, error)
        else:
            if listed:
                logger.warning("%s does not list %s, but answered a call to it.", server.url, names)

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        if self.chat is not None:
            return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)
        plain = [{"role": message["role"], "content": message["content"]} for message in messages]
        return await self._replies(_Prompt("chat", {"messages": plain}), sampling)

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        return await self._replies(self._prompt(parts, tokenizer), sampling)

    def summary(self) -> dict[str, Any]:
        """Return the calls and failures of each server by its URL, what servers refused, and who answered.

        `left_out` is `RequestBody.changes`. `served_as` are the names that replies have for the model, if one of them
        is another one.
        """
        found: dict[str, Any] = {"servers": self.servers.summary()}
        if changes := self._body.changes():
            found["left_out"] = changes
        if self._served_as - {self.model}:
            found["served_as"] = sorted(self._served_as)[:MOST_NAMES]
        return found

    def waiting(self) -> str:
        """Return what calls wait for, for a progress line; "" for nothing (`Servers.waiting`)."""
        return self.servers.waiting()

    async def close(self) -> None:
        await self.servers.close()

    def _prompt(self, parts: list[Part], tokenizer: str | None = None) -> _Prompt:
        """Return a prompt of token ids, or of text if there is no tokenizer.

        Its text is that for a server which tokenises it: without the BOS, if the server will add one.
        """
        text = parts_text(parts)
        prompt = text if self.chat is None else self.chat.encode(parts, tokenizer)[0]
        if self.chat is not None and self.chat.bos_text:
            own = self.chat.tokenizer
            if own("a")["input_ids"][:1] == [own.bos_token_id]:
                text = text.removeprefix(self.chat.bos_text)
        return _Prompt("text", {"prompt": prompt, "logprobs": 0, "return_token_ids": True}, text)

    def _note_name(self, name: str) -> None:
        """Note the name that a reply has for the model, with a warning if it is not the asked one with a date or so."""
        if name not in self._served_as and len(self._served_as) < MOST_NAMES:
            self._served_as.add(name)
            if self.model.rpartition("/")[2].lower() not in name.lower():
                logger.warning("%s: replies are by %r; is that the model that was meant?", self.model, name)

    async def _replies(self, prompt: _Prompt, sampling: Sampling) -> list[Completion]:
        """Return `sampling.n` replies from one call, or from n calls if the server gives one reply per call."""
        found = [] if self._body.one_at_a_time else await self._ask(prompt, sampling)
        if len(found) == sampling.n:
            return found
        if len(found) == 1 and not self._body.one_at_a_time:
            logger.warning("%s gives one reply per call: %d calls per request from now on", self.model, sampling.n)
            self._body.one_at_a_time = True
        single = [replace(sampling, n=1, seed=sampling.seed + number) for number in range(len(found), sampling.n)]
        replies = await asyncio.gather(*(self._ask(prompt, one) for one in single))
        return [*found, *(reply for (reply,) in replies)]

    async def _ask(
        self, prompt: _Prompt, sampling: Sampling, send: Callable[..., Awaitable[list[Completion]]] | None = None
    ) -> list[Completion]:
        """Make one call, again without the parameters that the server refuses.

        Raises:
            ModelError: There is no reply.
        """

        def read(answer: dict[str, Any]) -> list[Completion]:
            limit = sent.get("max_completion_tokens", sent.get("max_tokens"))  # `request` may have another one
            found = completions(answer, sampling.n, prompt.kind, self.chat, limit if isinstance(limit, int) else None)
            name = answer.get("model")  # hosted models have a date there
            if isinstance(name, str) and name:
                self._note_name(without_surrogates(name)[:LONGEST_NAME])
            return found

        form, last = self._body.form, None
        while True:
            sent = self._body.build(prompt.fields, sampling, prompt.text, form)
            try:
                found = await (send or self.servers.call)(PATHS[prompt.kind], sent, read)
            except ModelError as error:
                if OUTPUT_LIMIT in str(error):
                    return [Completion("", None, None, "length")] * sampling.n
                if isinstance(error.__cause__, openai.NotFoundError) and prompt.kind == "text":
                    error.args = (f"{error} (A server that has no {PATHS['text']} needs the tokenizer `none`.)",)
                adapted = self._body.adapted(error, sent, form)
                shown = None if adapted or error.kind != "refused" else _without_empty_messages(prompt)
                if adapted is None and shown is None:
                    if error.kind == "refused" and "max_tokens" in sent and re.search(r"\bmax_tokens\b", str(error)):
                        error.args = (f"{error} {OTHER_LIMIT}",)
                    raise
                form, prompt, last = adapted or form, shown or prompt, error
            else:
                self._body.accept(form, last)
                return found


def _without_empty_messages(prompt: _Prompt) -> _Prompt | None:
    """Return the prompt with a text in place of empty messages, which some servers refuse; None if none is empty."""
    messages = prompt.fields.get("messages", ())
    empty = [isinstance(message["content"], str) and not message["content"].strip() for message in messages]
    if not any(empty):
        return None
    shown = [message | {"content": NO_TEXT} if none else message for message, none in zip(messages, empty, strict=True)]
    return replace(prompt, fields=prompt.fields | {"messages": shown})
