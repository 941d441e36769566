"""What a simulated human is to a dialogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sweet_rl.models.base import Message
from sweet_rl.records import Task


@dataclass(frozen=True)
class HumanReply:
    """A reply. `leaks` counts the versions of it that gave the reference solution away and were asked for
    again (or, where that is switched off, let through)."""

    text: str
    leaks: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Human(Protocol):
    """Someone who knows the reference solution and answers the agent's questions about it."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """The next message after `dialogue`, which ends with the agent's. Raises ModelError."""
        ...
