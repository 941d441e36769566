"""What a human who replies and a grader of answers are. `domain.py` puts the parts of a domain together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from sweet_rl.models.base import Message
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task


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
        UserError: The reward is no number in [0, 1].
    """

    reward: float | None
    failure: str | None = None
    ungradable: str | None = None
    machine: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reward is not None:
            reward = float(self.reward)  # numpy's numbers too
            if not 0 <= reward <= 1:
                raise UserError(f"Grade: the reward is {self.reward!r}; it must be a number in [0, 1], or None.")
            object.__setattr__(self, "reward", reward)

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
