"""Backend Programming: the agent asks about a vaguely described function and ends with its code (PAPER,
ColBench)."""

from __future__ import annotations

from typing import Any

from sweet_rl.models.base import Completion, Message
from sweet_rl.prompts import fill
from sweet_rl.records import Task

ANSWER_MARKER = "I WANT TO ANSWER:"


class CodeCollaboration:
    """One dialogue about one task, as a state that is asked and told; it calls nobody.

    Attributes:
        dialogue: all messages so far, the first being the agent's instructions with the task.
        ending: None while it goes on; "answered"; "turn_limit" if `max_turns` agent messages held no answer.
        answer: what follows the marker in the message that ended the dialogue; None without a marker, so
            that an unfinished dialogue's last message is never taken for an answer.
    """

    def __init__(self, task: Task, agent_prompt: str, max_turns: int = 10) -> None:
        self.task = task
        self.max_turns = max_turns
        self.ending: str | None = None
        self.answer: str | None = None
        opening = fill(agent_prompt, problem_description=task.problem_description, max_turns=max_turns)
        self.dialogue: list[Message] = [{"role": "user", "content": opening}]

    @property
    def over(self) -> bool:
        return self.ending is not None

    @property
    def turns(self) -> int:
        """Messages of the agent so far."""
        return sum(message["role"] == "assistant" for message in self.dialogue)

    def observe(self) -> list[Message]:
        """What the agent sees before its next message (o_t)."""
        return list(self.dialogue)

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        """Takes the agent's message; ends the dialogue if it answers, or was the last one allowed."""
        if self.over:
            raise ValueError("this dialogue has ended; nothing can be said any more.")
        message: dict[str, Any] = {"role": "assistant", "content": completion.text}
        if prompt_text is not None:
            message["input"] = prompt_text
        message["output"] = completion.text
        if completion.token_ids is not None:
            message["token_ids"] = completion.token_ids
        message["finish_reason"] = completion.finish_reason
        self.dialogue.append(message)
        _, marker, answer = completion.text.partition(ANSWER_MARKER)
        if marker:
            self.ending, self.answer = "answered", answer.strip()
        elif self.turns >= self.max_turns:
            self.ending = "turn_limit"

    def hear(self, text: str) -> None:
        """Takes the human's reply."""
        if self.over or self.dialogue[-1]["role"] != "assistant":
            raise ValueError("the human speaks only after a message of the agent that did not end the dialogue.")
        self.dialogue.append({"role": "user", "content": text})
