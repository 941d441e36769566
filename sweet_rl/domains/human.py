"""The protocol `Human`, and what the humans that a language model plays have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sweet_rl.models.base import ChatModel, Message, ModelError, Sampling
from sweet_rl.models.thinking import without_thinking
from sweet_rl.records import Task

_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s|$)|\n")
_RETRY_TEMPERATURE = 0.7  # a greedy model would repeat the reply that was rejected


@dataclass(frozen=True)
class HumanReply:
    """A reply of the human.

    Attributes:
        text: the reply.
        leaks: number of versions of it that gave the reference solution away. They were rejected, or let through if
            the human does not retry them.
        prompt_tokens: tokens read for it, in all calls.
        completion_tokens: tokens written for it, in all calls.
    """

    text: str
    leaks: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Human(Protocol):
    """Someone who knows the reference solution and answers the agent's questions about it."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """The next message after `dialogue`, which ends with the agent's. The same seed gives the same reply.

        Raises:
            ModelError: the human cannot reply; the dialogue is recorded as failed.
        """
        ...


@dataclass(frozen=True)
class HumanSettings:
    """How a model plays the human.

    Attributes:
        temperature: of the human's replies; 0 is greedy.
        max_tokens: of one reply of the human.
        max_chars: length at which the human's replies are cut, at the end of a sentence; by default that of the domain.
        retry_leaks: ask the human again if a reply gives the reference solution away; otherwise it passes.
    """

    temperature: float = 0.0
    max_tokens: int = 256
    max_chars: int | None = None
    retry_leaks: bool = True


@dataclass
class ModelHuman:
    """A human that a language model plays.

    Args:
        model: the model.
        prompt_template: the human's instructions; the names in braces are those of the subclass.
        max_chars: replies are cut at the last end of a sentence within this length.
        retry_leaks: reject a reply that gives the reference solution away and ask again, up to `leak_attempts` times,
            then use a fixed sentence. If False, such replies are let through. They are counted in both cases.
        temperature: of the first attempt; 0 is greedy.
        max_tokens: of one reply.
    """

    model: ChatModel
    prompt_template: str
    max_chars: int = 400
    retry_leaks: bool = True
    leak_attempts: int = 4
    temperature: float = 0.0
    max_tokens: int = 256

    async def ask(
        self, content: Callable[[bool], Any], gives_away: Callable[[str], bool], fallback: str, seed: int
    ) -> HumanReply:
        """Ask the model until it gives a reply that can be used.

        Args:
            content: `content(reminded)` is the content of the message to the model, with a reminder if an earlier
                reply gave the solution away.
            gives_away: whether a reply gives the reference solution away.
            fallback: the reply if all attempts give it away.
            seed: seed of the first attempt; each further attempt adds 1.

        Raises:
            ModelError: the model cannot be called, or its reply is empty twice (kind "malformed").
        """
        leaks = empty = prompt_tokens = completion_tokens = 0
        while True:
            attempt = leaks + empty
            temperature = max(self.temperature, _RETRY_TEMPERATURE) if attempt else self.temperature
            sampling = Sampling(temperature=temperature, max_tokens=self.max_tokens, seed=seed + attempt)
            (completion,) = await self.model.complete([{"role": "user", "content": content(leaks > 0)}], sampling)
            prompt_tokens += completion.prompt_tokens
            completion_tokens += completion.completion_tokens
            finished = completion.finish_reason != "length"
            text = cut_at_sentence(without_thinking(completion.text), self.max_chars, finished)
            if not text:
                empty += 1
                if empty == 2:
                    raise ModelError("malformed", "the simulated human's model gave an empty reply twice.")
                continue
            if not gives_away(text):
                break
            leaks += 1
            if not self.retry_leaks:
                break
            if leaks == self.leak_attempts:
                text = fallback
                break
        return HumanReply(text, leaks, prompt_tokens, completion_tokens)


def cut_at_sentence(text: str, limit: int, finished: bool = True) -> str:
    """Cut a text at the last end of a sentence within `limit` characters, or between words if there is none.

    A `finished` text within the limit stays whole; a text that a token limit cut loses its incomplete last sentence.
    """
    text = text.strip()
    if finished and len(text) <= limit:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if match.end() <= limit]
    if ends:
        return text[: ends[-1]].strip()
    if len(text) <= limit:
        return text
    head = text[:limit]
    return (head.rpartition(" ")[0] or head).strip()
