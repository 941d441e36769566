"""Asking a model to play the human: cut at a sentence, asked again where a reply gives the reference solution away."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sweet_rl.humans.base import HumanReply
from sweet_rl.models.base import ChatModel, ModelError, Sampling

_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s|$)|\n")


@dataclass(frozen=True)
class Asking:
    """How the human's model is asked.

    max_chars: replies are cut at the last sentence that ends within this length. retry_leaks: ask again, up to
    `leak_attempts` times, where a reply gives the reference solution away; else such replies are let through.
    They are counted either way.
    """

    max_chars: int
    retry_leaks: bool = True
    leak_attempts: int = 4
    temperature: float = 0.0
    max_tokens: int = 256

    async def reply(
        self,
        model: ChatModel,
        content: Callable[[bool], Any],
        gives_away: Callable[[str], bool],
        instead: str,
        seed: int,
    ) -> HumanReply:
        """What the model says to `content(reminded)`, a message's content with or without a reminder that an earlier
        reply gave too much away; `instead` where it goes on doing so.

        Raises ModelError, also (kind malformed) if the model has nothing to say twice.
        """
        leaks = empty = prompt_tokens = completion_tokens = 0
        while True:
            sampling = Sampling(
                temperature=max(self.temperature, 0.7) if leaks + empty else self.temperature,
                max_tokens=self.max_tokens,
                seed=seed + leaks + empty,
            )
            (completion,) = await model.complete([{"role": "user", "content": content(leaks > 0)}], sampling)
            prompt_tokens += completion.prompt_tokens
            completion_tokens += completion.completion_tokens
            said = cut_at_sentence(completion.text, self.max_chars, finished=completion.finish_reason != "length")
            if not said:
                empty += 1
                if empty == 2:
                    raise ModelError("malformed", "the simulated human's model gave an empty reply twice.")
                continue
            if not gives_away(said):
                break
            leaks += 1
            if not self.retry_leaks:
                break
            if leaks == self.leak_attempts:
                said = instead
                break
        return HumanReply(said, leaks, prompt_tokens, completion_tokens)


def cut_at_sentence(text: str, limit: int, finished: bool = True) -> str:
    """The text up to the last end of a sentence within `limit` characters; between words if no sentence
    ends there.

    A `finished` text within the limit stays whole; one that a token limit cut loses its broken last sentence.
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
