"""The human of Backend Programming: a language model that knows the reference code and answers in words (the paper,
section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.domains.human import HumanReply, ModelHuman
from sweet_rl.domains.leaks import gives_away
from sweet_rl.models.base import Message
from sweet_rl.prompts import fill
from sweet_rl.records import Task

PROMPT_VALUES = ("problem_description", "ground_truth", "dialogue")
WITHOUT_CODE = "(I should not show any code. Please ask me about one thing the function should do.)"
REMINDER = (
    "\n\nAn earlier draft of your message repeated parts of the hidden code and was thrown away. "
    "Describe the behaviour in words only."
)


@dataclass
class LLMHuman(ModelHuman):
    """A simulated human on any ChatModel. `prompt_template` holds {problem_description}, {ground_truth}, {dialogue}."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """See `Human.reply`. Replies that repeat the reference code are leaks (`leaks.py`)."""
        prompt = fill(
            self.prompt_template,
            problem_description=task.problem_description,
            ground_truth=task.ground_truth,
            dialogue=transcript(dialogue),
        )
        shown = "\n".join(message["content"] for message in dialogue)
        return await self.ask(
            lambda reminded: prompt + REMINDER if reminded else prompt,
            lambda text: gives_away(text, task.ground_truth, shown),
            WITHOUT_CODE,
            seed,
        )


def transcript(dialogue: list[Message]) -> str:
    """The dialogue as text, without its first message, which holds the agent's instructions."""
    names = {"assistant": "Engineer", "user": "You"}
    return "\n\n".join(f"{names[message['role']]}: {message['content'].strip()}" for message in dialogue[1:])
