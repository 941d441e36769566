"""The LLM-simulated human: knows the reference code, answers in about two sentences, never with code
(PAPER)."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.humans.asking import Asking
from sweet_rl.humans.base import HumanReply
from sweet_rl.humans.leaks import gives_away
from sweet_rl.models.base import ChatModel, Message
from sweet_rl.prompts import fill
from sweet_rl.records import Task

PROMPT_VALUES = ("problem_description", "ground_truth", "dialogue")
WITHOUT_CODE = "(I should not show any code. Please ask me about one thing the function should do.)"
REMINDER = (
    "\n\nAn earlier draft of your message repeated parts of the hidden code and was thrown away. "
    "Describe the behaviour "
    "in words only."
)


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
        asking = Asking(self.max_chars, self.retry_leaks, self.leak_attempts, self.temperature, self.max_tokens)
        return await asking.reply(
            self.model,
            lambda reminded: prompt + REMINDER if reminded else prompt,
            lambda said: gives_away(said, task.ground_truth, shown),
            WITHOUT_CODE,
            seed,
        )


def transcript(dialogue: list[Message]) -> str:
    """The dialogue as text, without its first message, which holds the agent's instructions."""
    names = {"assistant": "Engineer", "user": "You"}
    return "\n\n".join(f"{names[message['role']]}: {message['content'].strip()}" for message in dialogue[1:])
