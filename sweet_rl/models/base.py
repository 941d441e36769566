"""What a dialogue asks of a language model, and what it gets back.

The agent and the simulated human both hang on `ChatModel`, so that either can be a server, a model in this
process, or anything else that answers a list of messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError

Message = dict[str, Any]
Part = dict[str, Any]


@dataclass(frozen=True)
class Sampling:
    """How a reply is drawn.

    Temperature 0 is greedy. Of `n` replies, number i is the reply that `n=1` and the seed `seed + i` would
    give, where the engine keeps seeds at all.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    n: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise UserError(f"temperature is {self.temperature}; it must be 0 (greedy) or above.")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p is {self.top_p}; it must be above 0 and at most 1 (1 keeps every token).")
        if self.max_tokens < 1:
            raise UserError(f"max_tokens is {self.max_tokens}; a reply needs at least 1 token.")
        if self.n < 1:
            raise UserError(f"n is {self.n}; at least 1 reply must be asked for.")
        if self.seed < 0:
            raise UserError(f"seed is {self.seed}; it must not be negative.")


@dataclass(frozen=True)
class Completion:
    """One reply.

    Attributes:
        text: the reply without the end-of-text token.
        token_ids: the sampled ids, the end-of-text token included where it was produced; None if not known.
        logprobs: one log-probability per token id, under the distribution that was sampled from (under the
            model's own, if greedy); None if not known.
        finish_reason: "stop" if the model ended its reply, "length" if a token limit cut it.
        prompt_tokens, completion_tokens: counts, for tokens per second and for cost.
    """

    text: str
    token_ids: list[int] | None
    logprobs: list[float] | None
    finish_reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ModelError(Exception):
    """A reply that could not be had. `kind` is one word that summaries count by; `retryable` says whether
    asking again may help, `retry_after` after how many seconds the server wants that, `nobody_listens` that there
    is no server at the address. Kinds: timeout, connection, overloaded, server, malformed; context (the prompt is too
    long), filtered, refused, auth (the key, or a model that is not served), engine."""

    nobody_listens = False

    def __init__(self, kind: str, message: str, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after


@runtime_checkable
class ChatModel(Protocol):
    """A language model that replies. `chat` is its chat format, None where its tokenizer is not at hand."""

    chat: ChatFormat | None

    async def check(self) -> None:
        """Raises UserError where it is plain from the start that no call can work (no server, no such
        model)."""
        ...

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` replies to the messages. Raises ModelError."""
        ...

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        """The same for a prompt that is already laid out in parts; `tokenizer` is the fingerprint of the
        tokenizer that the parts' own token ids belong to. Raises ModelError."""
        ...

    async def close(self) -> None: ...
