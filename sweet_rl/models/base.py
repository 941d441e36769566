"""The protocol of a language model: sampling settings in, completions out.

The agent and the simulated human are both a `ChatModel`: a server, a model in this process, or any other object that
answers messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import ItemError, UserError
from sweet_rl.runs.records import Message

TOO_LONG = re.compile(
    r"context[_ ](length|size|window)|(prompt|input|messages?)\b[^.;]{0,30} too long|maximum (prompt|input) length"
    r"|(prompt|input)[^.;]{0,30} exceeds|longer than [^.;]{0,40}(context|model) length|reduce the length of the",
    re.IGNORECASE,
)
"""What servers and engines write if a prompt, with the room for its reply, is longer than the model's context."""

Prompt = list[int] | list[Message]
"""Token ids, for a model whose chat format is known, or messages."""


@dataclass(frozen=True)
class Sampling:
    """How replies are sampled.

    Attributes:
        temperature: Sampling temperature; 0 for greedy decoding.
        max_tokens: Largest number of tokens of one reply.
        n: Number of replies (candidates of a turn). Reply i is the one that `n=1` and the seed `seed + i` give, if the
            engine honours seeds.
        seed: Not negative. The same prompt, settings and seed give the same reply, if the engine honours seeds.

    Raises:
        UserError: A value is out of its range.
    """

    temperature: float = 1.0
    max_tokens: int = 1024
    n: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise UserError(f"temperature is {self.temperature}; it must be 0 (greedy) or above.")
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
        kind: One word, counted in summaries: timeout, connection, server, malformed; context (the prompt is too long),
            filtered, refused, auth (the key, the account's credit, or a model that is not served), engine.
        retryable: Whether the same call may succeed later.
        fatal: Reason for which every other call would fail too, if the kind is auth.
        param: Name of the field of the request that the server refuses, if it says so in a field of its own.
    """

    def __init__(self, kind: str, message: str, retryable: bool = False, param: str | None = None) -> None:
        fatal = "the server refuses the key, the account or the model" if kind == "auth" else None
        super().__init__(kind, message, retryable, fatal)
        self.param = param


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

    async def complete(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        """Return `sampling.n` replies.

        Args:
            prompt: Messages, or the token ids that `chat` makes of them (only for a model that has a chat format).
            sampling: How the replies are sampled.

        Raises:
            ModelError: There is no reply.
        """
        ...

    async def close(self) -> None:
        """Free the model's resources; calls in progress fail."""
        ...


def is_ids(prompt: Prompt) -> bool:
    """Return whether a prompt is token ids, and not messages."""
    return not prompt or isinstance(prompt[0], int)


def prompt_ids(chat: ChatFormat, prompt: Prompt) -> list[int]:
    """Return the token ids of a prompt, which is ids already or messages."""
    return list(prompt) if is_ids(prompt) else chat.encode(chat.prompt(prompt))[0]  # type: ignore[arg-type]
