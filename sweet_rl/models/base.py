"""The protocol of a language model: sampling settings in, completions out.

The agent and the simulated human are both a `ChatModel`: a server, a model in this process, or any other object that
answers a list of messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import ItemError, UserError
from sweet_rl.runs.records import Message, Part

TOO_LONG = re.compile(
    r"maximum context (length|size|window)|exceed\w*[^.;]{0,60}\bcontext[ _]?(length|size|window|limit)"
    r"|longer than [^.;]{0,40}(context|model) length|context[ _]?(length|window)[ _]?exceeded"
    r"|maximum (prompt|input) length|\b(prompts?|inputs?|messages)\b[^.;]{0,30} too long|prompt exceeds"
    r"|input (token count|length)\b[^.;]{0,40} exceeds|`inputs`[^.;]{0,40} must (be <=|have less than)"
    r"|reduce the length of (the|your) (input )?(messages|prompt)|max_(completion_)?tokens must be at least 1, got -"
    r"|range of input length|too many (input |prompt )?tokens|maximum number of (input )?tokens allowed",
    re.IGNORECASE,
)
"""What servers and engines write if a prompt, with the room for its reply, is longer than the model's context."""


@dataclass(frozen=True)
class Sampling:
    """How replies are sampled.

    Attributes:
        temperature: Sampling temperature; 0 for greedy decoding.
        top_p: Tokens are drawn from the smallest set of likeliest tokens that has this probability; 1 keeps all.
        max_tokens: Largest number of tokens of one reply.
        n: Number of replies (candidates of a turn). Reply i is the one that `n=1` and the seed `seed + i` give, if the
            engine honours seeds.
        seed: Not negative. The same prompt, settings and seed give the same reply, if the engine honours seeds.

    Raises:
        UserError: A value is out of its range.
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
            raise UserError(f"--n is {self.n}; at least 1 reply must be asked for.")
        if self.seed < 0:
            raise UserError(f"seed is {self.seed}; it must not be negative.")


@dataclass(frozen=True)
class Completion:
    """One reply.

    Attributes:
        text: The reply without the end-of-text token.
        token_ids: The sampled ids, with the end-of-text token if it was produced; None if not known.
        logprobs: One log-probability per token id, under the distribution that was sampled from (under the
            model's own, if greedy); None if not known.
        finish_reason: "stop" if the model ended its reply, "length" if a token limit cut it.
        prompt_tokens: Number of prompt tokens, for throughput and cost; None if not known.
        completion_tokens: Number of sampled tokens; None if not known.
    """

    text: str
    token_ids: list[int] | None
    logprobs: list[float] | None
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @classmethod
    def of_ids(
        cls, chat: ChatFormat, ids: list[int], logprobs: list[float] | None, finish_reason: str, prompt_tokens: int
    ) -> Completion:
        """Return the reply of these sampled ids."""
        return cls(chat.decode(ids), ids, logprobs, finish_reason, prompt_tokens, len(ids))


class ModelError(ItemError):
    """A call that gave no reply.

    Attributes:
        kind: One word, counted in summaries: timeout, connection, overloaded, server, malformed; context (the prompt
            is too long), filtered, refused, auth (the key, the account's credit, or a model that is not served),
            forbidden (403: the key or this dialogue), engine.
        retryable: Whether the same call may succeed later.
        fatal: Reason for which every other call would fail too, if the kind is auth.
        param: Name of the field of the request that the server refuses, if it says so in a field of its own.
    """

    def __init__(self, kind: str, message: str, retryable: bool = False, param: str | None = None) -> None:
        fatal = "the server refuses the key, the account or the model" if kind == "auth" else None
        super().__init__(kind, message, retryable, fatal)
        self.param = param


@runtime_checkable
class ChatModel(Protocol):
    """A language model that replies to messages.

    Attributes:
        chat: Its chat format, or None if its tokenizer is not available.
    """

    @property
    def chat(self) -> ChatFormat | None: ...

    async def check(self) -> None:
        """Check that calls can work at all.

        Raises:
            UserError: They cannot (no server, no such model).
        """
        ...

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """Return `sampling.n` replies to the messages.

        Raises:
            ModelError: There is no reply.
        """
        ...

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        """Return `sampling.n` continuations of a prompt that is already laid out in parts.

        Args:
            parts: The prompt.
            sampling: How the replies are sampled.
            tokenizer: Fingerprint of the tokenizer that the token ids in `parts` belong to.

        Raises:
            ModelError: There is no reply.
        """
        ...

    async def close(self) -> None:
        """Free the model's resources; calls in progress fail."""
        ...
