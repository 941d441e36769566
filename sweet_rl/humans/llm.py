"""The LLM-simulated human: knows the reference code, answers in about two sentences, never with code
(PAPER)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sweet_rl.humans.base import HumanReply
from sweet_rl.humans.leaks import gives_away
from sweet_rl.models.base import ChatModel, Message, ModelError, Sampling
from sweet_rl.prompts import fill
from sweet_rl.records import Task

PROMPT_VALUES = ("problem_description", "ground_truth", "dialogue")
WITHOUT_CODE = "(I should not show any code. Please ask me about one thing the function should do.)"
REMINDER = (
    "\n\nAn earlier draft of your message repeated parts of the hidden code and was thrown away. "
    "Describe the behaviour "
    "in words only."
)
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s|$)|\n")


@dataclass
class LLMHuman:
    """A simulated human on any ChatModel.

    Args:
        prompt_template: holds {problem_description}, {ground_truth} and {dialogue}.
        max_chars: replies are cut at the last sentence that ends within this length.
        retry_leaks: ask again, up to `leak_attempts` times, where a reply gives the reference solution
            away, and say a fixed sentence without code if none comes; else such replies are let through.
            They are counted either way.
    """

    model: ChatModel
    prompt_template: str
    max_chars: int = 400
    retry_leaks: bool = True
    leak_attempts: int = 4
    temperature: float = 0.0
    max_tokens: int = 256

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """Raises ModelError, also (kind malformed) if the model has nothing to say twice."""
        prompt = fill(
            self.prompt_template,
            problem_description=task.problem_description,
            ground_truth=task.ground_truth,
            dialogue=transcript(dialogue),
        )
        shown = "\n".join(message["content"] for message in dialogue)
        leaks = empty = prompt_tokens = completion_tokens = 0
        while True:
            again = leaks + empty > 0
            sampling = Sampling(
                temperature=max(self.temperature, 0.7) if again else self.temperature,
                max_tokens=self.max_tokens,
                seed=seed + leaks + empty,
            )
            text = prompt + REMINDER if leaks else prompt
            (completion,) = await self.model.complete([{"role": "user", "content": text}], sampling)
            prompt_tokens += completion.prompt_tokens
            completion_tokens += completion.completion_tokens
            said = cut_at_sentence(completion.text, self.max_chars, finished=completion.finish_reason != "length")
            if not said:
                empty += 1
                if empty == 2:
                    raise ModelError("malformed", "the simulated human's model gave an empty reply twice.")
                continue
            if not gives_away(said, task.ground_truth, shown):
                break
            leaks += 1
            if not self.retry_leaks:
                break
            if leaks == self.leak_attempts:
                said = WITHOUT_CODE
                break
        return HumanReply(said, leaks, prompt_tokens, completion_tokens)


def transcript(dialogue: list[Message]) -> str:
    """The dialogue as text, without its first message, which holds the agent's instructions."""
    names = {"assistant": "Engineer", "user": "You"}
    return "\n\n".join(f"{names[message['role']]}: {message['content'].strip()}" for message in dialogue[1:])


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
