"""The human who knows the reference solution and answers in words; a language model plays it (the paper, section 3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sweet_rl.dialogues.leaks import gives_away
from sweet_rl.models.base import ChatModel, Completion, Message, ModelError, Sampling
from sweet_rl.models.prompts import fill
from sweet_rl.models.texts.chat import parts_text
from sweet_rl.models.thinking import without_thinking
from sweet_rl.runs.records import Task

PROMPT_VALUES = ("problem_description", "ground_truth", "dialogue")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s|$)|[。！？][\"'”’)\]」』）]*|\n")
LEAK_ATTEMPTS = 4
REPLY_CHARS, REPLY_TOKENS = 400, 256  # of a domain that names no others
_RETRY_TEMPERATURE = 0.7  # because a greedy model would repeat the reply that was rejected


@dataclass(frozen=True)
class HumanReply:
    """A reply of the human.

    Attributes:
        text: The reply.
        leaks: Number of its drafts that gave the reference solution away, sent or not.
        prompt_tokens: Number of tokens read for it, in all calls of a model; None if not known.
        completion_tokens: Number of tokens written for it, in all calls of a model; None if not known.
    """

    text: str
    leaks: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0


class Human(Protocol):
    """Someone who knows the reference solution and answers the agent's questions about it."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """The next message after `dialogue`, which ends with the agent's. The same seed gives the same reply.

        Raises:
            ModelError: The human cannot reply; the dialogue is recorded as failed.
        """
        ...


def sum_or_none(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None if one of them is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


@dataclass(frozen=True)
class HumanSettings:
    """How a model plays the human.

    Attributes:
        temperature: Temperature of the human's replies; 0 is greedy.
        max_tokens: Largest number of tokens of one reply of the human; by default that of the domain.
        max_chars: Length at which the human's replies are cut; by default that of the domain.
        retry_leaks: Ask the human again if a reply gives the reference solution away; otherwise it passes.
    """

    temperature: float = 0.0
    max_tokens: int | None = None
    max_chars: int | None = None
    retry_leaks: bool = True


@dataclass
class ModelHuman:
    """A human that a language model plays.

    A reply is cut at the last end of a sentence within `max_chars`. One that gives the reference solution away is
    counted and asked for again; a fixed sentence replaces the last of LEAK_ATTEMPTS. Without `retry_leaks` it passes.

    Args:
        model: The model.
        prompt_template: Instructions of the human; the names in braces are those of the subclass.
        settings: How the model plays.
    """

    model: ChatModel
    prompt_template: str
    settings: HumanSettings = HumanSettings()

    async def ask(
        self, content: Callable[[bool], Any], gives_away: Callable[[str], bool], fallback: str, seed: int
    ) -> HumanReply:
        """Ask the model until it gives a reply that can be used.

        Args:
            content: Function `content(reminded)` that returns the message to the model, with a reminder if wanted.
            gives_away: Function that says whether a reply gives the reference solution away.
            fallback: Reply if all attempts give it away.
            seed: Random seed of the first attempt; each further attempt adds 1.

        Raises:
            ModelError: The model cannot be called, or its reply is empty twice (kind "malformed").
        """
        settings, leaks, empty = self.settings, 0, 0
        calls: list[Completion] = []
        while True:
            attempt = leaks + empty
            temperature = max(settings.temperature, _RETRY_TEMPERATURE) if attempt else settings.temperature
            tokens = settings.max_tokens or REPLY_TOKENS
            sampling = Sampling(temperature=temperature, max_tokens=tokens, seed=seed + attempt)
            messages: list[Message] = [{"role": "user", "content": content(leaks > 0)}]
            (completion,) = await self.model.complete(messages, sampling)
            calls.append(completion)
            finished = completion.finish_reason != "length"
            prompt = None if self.model.chat is None else parts_text(self.model.chat.prompt(messages))
            spoken = without_thinking(completion.text, prompt, finished)
            text = cut_at_sentence(spoken, settings.max_chars or REPLY_CHARS, finished)
            if not text:
                empty += 1
                if empty == 2:
                    raise ModelError("malformed", "the simulated human's model gave an empty reply twice.")
                continue
            if not gives_away(text):
                break
            leaks += 1
            if not settings.retry_leaks:
                break
            if leaks == LEAK_ATTEMPTS:
                text = fallback
                break
        read = sum_or_none(call.prompt_tokens for call in calls)
        written = sum_or_none(call.completion_tokens for call in calls)
        return HumanReply(text, leaks, read, written)


@dataclass
class LLMHuman(ModelHuman):
    """A simulated human on any ChatModel. `prompt_template` holds {problem_description}, {ground_truth}, {dialogue}."""

    reminder = "An earlier draft of your message repeated parts of the hidden solution. Use words of your own only."
    fallback = "(I should not show any part of the solution. Please ask me about one thing.)"

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """See `Human.reply`. Replies that repeat the reference solution are leaks (`leaks.py`)."""
        prompt = fill(
            self.prompt_template,
            problem_description=task.problem_description,
            ground_truth=task.ground_truth,
            dialogue=transcript(dialogue, agent="Engineer"),
        )
        shown = "\n".join(message["content"] for message in dialogue)
        return await self.ask(
            lambda reminded: f"{prompt}\n\n{self.reminder}" if reminded else prompt,
            lambda text: gives_away(text, task.ground_truth, shown),
            self.fallback,
            seed,
        )


def transcript(dialogue: Sequence[Message], agent: str, shown: Callable[[str], str] = str.strip) -> str:
    """The dialogue as text, without its first message, which holds the agent's instructions. The human is called You;
    `shown` returns what is shown of a message."""
    names = {"assistant": agent, "user": "You"}
    return "\n\n".join(f"{names[message['role']]}: {shown(message['content'])}" for message in dialogue[1:])


def cut_at_sentence(text: str, limit: int, finished: bool = True) -> str:
    """Cut a text at the last end of a sentence within `limit` characters, or at a space in the second half of these.

    With neither it is cut at the limit, as texts in languages without spaces are. A `finished` text within the limit
    stays whole; a text that a token limit cut loses its incomplete last sentence.
    """
    text = text.strip()
    if finished and len(text) <= limit:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if match.end() <= limit]
    if ends:
        return text[: ends[-1]].strip()
    if len(text) <= limit:
        return text
    space = text.rfind(" ", limit // 2, limit + 1)
    return text[: limit if space < 0 else space].strip()
