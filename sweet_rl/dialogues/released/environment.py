"""The rules of a dialogue in the released protocol of ColBench: what its agent sees, and what becomes of a reply.

They differ from `AnswerEnvironment`: the instructions are a system message, and the first user message is the bare
description; a reply with `OUTPUT:` is shown from there on; and the last reply is graded even if it is no answer.
"""

from __future__ import annotations

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER, AnswerEnvironment
from sweet_rl.models.base import Completion
from sweet_rl.runs.records import Message, Task, as_shown

OUTPUT_MARKER = "OUTPUT:"


class ReleasedEnvironment(AnswerEnvironment):
    """An `AnswerEnvironment` of Backend Programming as it was released.

    Nothing is stripped from a text. The dialogue ends at a reply with ANSWER_MARKER, or at reply `max_turns`, which is
    then the whole answer.

    Args:
        task: Task of the dialogue.
        agent_prompt: The system message; nothing in it is filled in.
        max_turns: Number of messages that the agent may write.
    """

    def __init__(self, task: Task, agent_prompt: str, max_turns: int = 10) -> None:
        super().__init__(task, agent_prompt, max_turns)
        self.dialogue = [
            {"role": "system", "content": agent_prompt},
            {"role": "user", "content": task.problem_description},
        ]

    def observe(self) -> list[Message]:
        """The messages as the agent sees them: of an earlier reply only what was shown of it."""
        return as_shown(self.dialogue)

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        """Add the agent's message. Raises ValueError if the dialogue has ended."""
        if self.over:
            raise ValueError("this dialogue has ended: it takes no message of the agent.")
        content, output = shown_and_sampled(completion.text)
        message: Message = {"role": "assistant", "content": content, "output": output}
        if prompt_text is not None:
            message["input"] = prompt_text
        if completion.token_ids is not None and output == completion.text:
            message["token_ids"] = completion.token_ids
        message["finish_reason"] = completion.finish_reason
        self.dialogue.append(message)
        if ANSWER_MARKER in content:
            self.ending = "answered"
        elif self.turns >= self.max_turns:
            self.ending = "turn_limit"
        if self.over:
            self.answer = self.last_answer(content)

    def last_answer(self, content: str) -> str | None:
        """The answer in the last reply: what stands between the first and the second marker, or all of it."""
        return content.split(ANSWER_MARKER)[1] if ANSWER_MARKER in content else content


def shown_and_sampled(text: str) -> tuple[str, str]:
    """What the human sees of a sampled text, and the part of it that counts as sampled.

    With OUTPUT_MARKER the human sees what stands between its first and its second place, or all behind the first, and
    the text ends before the second.
    """
    pieces = text.split(OUTPUT_MARKER)
    if len(pieces) == 1:
        return text, text
    return pieces[1], OUTPUT_MARKER.join(pieces[:2])
