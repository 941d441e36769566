"""What a domain consists of: an environment (the rules of a dialogue), a human who replies, and a grader of answers.

A class with these methods is enough; it need not inherit from anything. `domain.py` puts the three together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from sweet_rl.models.base import Completion, Message
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Ending, Task
from sweet_rl.runs.user_file import finite_number, shown

# ------------------------------------------------------------------------------------------------ the rules


class Environment(Protocol):
    """One dialogue about one task. It holds state and rules and calls no model.

    The dialogue only ever grows at its end, so that the prompt of a turn is the beginning of the next turn's prompt.

    Attributes:
        dialogue: All messages so far, {role, content, ...}. The first one holds the agent's instructions with the task.
        ending: None while the dialogue goes on, then "answered" or "turn_limit".
        answer: The text that is graded; None if the agent gave no answer.
        over: Whether the dialogue has ended.
        turns: Number of messages of the agent so far.
    """

    dialogue: list[Message]
    ending: Ending | None
    answer: str | None

    @property
    def over(self) -> bool: ...

    @property
    def turns(self) -> int: ...

    def observe(self) -> list[Message]:
        """The messages that the agent sees before its next turn: o_t in section 3 of the paper."""
        ...

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        """Add the agent's message; `prompt_text` is the prompt that it was sampled from, if it is known."""
        ...

    def add_human_reply(self, text: str) -> None:
        """Add the human's reply."""
        ...


# ------------------------------------------------------------------------------------------------ the human


@dataclass(frozen=True)
class HumanReply:
    """A reply of the human.

    Attributes:
        text: The reply.
        leaks: Number of its versions that gave the reference solution away. They were rejected, or let through if the
            human does not retry them.
        prompt_tokens: Number of tokens read for it, in all calls of a model; None if not known.
        completion_tokens: Number of tokens written for it, in all calls of a model; None if not known.
    """

    text: str
    leaks: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0


def sum_or_none(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None if one of them is not known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


class Human(Protocol):
    """Someone who knows the reference solution and answers the agent's questions about it."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """The next message after `dialogue`, which ends with the agent's. The same seed gives the same reply.

        Raises:
            ModelError: The human cannot reply; the dialogue is recorded as failed.
        """
        ...


# ------------------------------------------------------------------------------------------------ the reward

# Longer answers fail unread: what looks for code or a page in an answer runs in the grading process, without a limit.
MAX_ANSWER_CHARS = 1_000_000


@dataclass(frozen=True)
class Grade:
    """The reward of one answer and the evidence for it.

    Attributes:
        reward: Number in [0, 1]; 1.0 is success. None if there is no reward: the reference cannot be graded against
            (`ungradable`), or the machine failed (`machine`).
        failure: Kind of the answer's failure ("wrong value", "timeout", "no answer", "too long", ...); None if the
            answer has full marks or was not judged.
        ungradable: Reason why the reference cannot be graded against; None for every ordinary task.
        machine: What the machine did to the answer, also when it was tried again alone (for example "ran out of
            wall time: 0.2 of 1.0 s of CPU time in 3.0 s"). Such an answer is not judged; grading it again may work.
        evidence: What the grader saw, as JSON values: tests and sandbox level; similarity and encoder.

    Raises:
        UserError: The reward is no number in [0, 1], or another field has a value of another form.
    """

    reward: float | None
    failure: str | None = None
    ungradable: str | None = None
    machine: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reward is not None:
            reward = finite_number(self.reward)
            if reward is None or not 0 <= reward <= 1:
                raise UserError(f"Grade: the reward is {shown(self.reward)}; it must be a number in [0, 1], or None.")
            object.__setattr__(self, "reward", reward)  # numpy's numbers too
        for name in ("failure", "ungradable", "machine"):
            if not isinstance(getattr(self, name), str | None):
                raise UserError(f"Grade: {name} is {shown(getattr(self, name))}; it must be a text, or None.")

    def as_dict(self) -> dict[str, Any]:
        """The value of the field `grade` in a graded trajectory."""
        row = {"failure": self.failure, "ungradable": self.ungradable, **self.evidence}
        return row | ({} if self.machine is None else {"machine": self.machine})


class Grader(Protocol):
    """Gives answers their reward. It is a context manager, which calls `close` at its end."""

    def describe(self) -> str:
        """One line for people: how answers are graded on this machine."""
        ...

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order; an answer of None is a dialogue without one.

        Several may be graded at the same time; `jobs` is read only as far ahead as that needs.
        """
        ...

    def close(self) -> None:
        """End the processes of the grader."""
        ...

    def __enter__(self) -> Grader: ...

    def __exit__(self, *error: object) -> None: ...
