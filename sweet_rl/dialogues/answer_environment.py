"""The usual rules of a dialogue: the agent asks until it writes `I WANT TO ANSWER:` or has used up its turns."""

from __future__ import annotations

from sweet_rl.models.base import Completion, Message
from sweet_rl.models.prompts import fill
from sweet_rl.models.thinking import without_thinking
from sweet_rl.runs.records import Ending, Task

ANSWER_MARKER = "I WANT TO ANSWER:"


class AnswerEnvironment:
    """An `Environment` that ends when the agent writes ANSWER_MARKER, or after `max_turns` messages of the agent.

    A domain with other rules inherits from it: `read_answer` for another form of the answer, `step`, `end_turn` or
    `add_human_reply` for another ending. A dialogue that ends at the turn limit has no answer: its last message is
    never graded as if it were one.

    Args:
        task: Task of the dialogue.
        agent_prompt: Template of the first message, with {problem_description} and, if wanted, {max_turns}.
        max_turns: Number of messages that the agent may write.
    """

    def __init__(self, task: Task, agent_prompt: str, max_turns: int = 10) -> None:
        self.task = task
        self.max_turns = max_turns
        self.ending: Ending | None = None
        self.answer: str | None = None
        opening = fill(agent_prompt, problem_description=task.problem_description, max_turns=max_turns)
        self.dialogue: list[Message] = [{"role": "user", "content": opening}]

    @property
    def over(self) -> bool:
        return self.ending is not None

    @property
    def turns(self) -> int:
        return sum(message["role"] == "assistant" for message in self.dialogue)

    def observe(self) -> list[Message]:
        return list(self.dialogue)

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        """Add the agent's message. Raises ValueError if the dialogue has ended."""
        if self.over:
            raise ValueError("this dialogue has ended: it takes no message of the agent.")
        content, output = self.shown_and_sampled(completion, prompt_text)
        message: Message = {"role": "assistant", "content": content}
        if prompt_text is not None:
            message["input"] = prompt_text
        message["output"] = output
        if completion.token_ids is not None and output == completion.text:
            message["token_ids"] = completion.token_ids
        message["finish_reason"] = completion.finish_reason
        self.dialogue.append(message)
        self.end_turn(content)

    def shown_and_sampled(self, completion: Completion, prompt_text: str | None) -> tuple[str, str]:
        """What the human sees, which is without the reasoning, and what is kept as sampled."""
        return without_thinking(completion.text, prompt_text, completion.finish_reason == "stop"), completion.text

    def end_turn(self, content: str) -> None:
        """End the dialogue if the agent's message `content` ends it."""
        _, marker, answer = content.partition(ANSWER_MARKER)
        if marker:
            self.ending, self.answer = "answered", self.read_answer(answer.strip())
        elif self.turns >= self.max_turns:
            self.ending = "turn_limit"

    def read_answer(self, text: str) -> str:
        """The answer in `text`, which is all that follows the first marker in the agent's last message."""
        return text

    def add_human_reply(self, text: str) -> None:
        """Add the human's reply. Raises ValueError if it is not the human's turn."""
        if self.over or self.dialogue[-1]["role"] != "assistant":
            raise ValueError("the human replies only to a message of the agent that did not end the dialogue.")
        self.dialogue.append({"role": "user", "content": text})
