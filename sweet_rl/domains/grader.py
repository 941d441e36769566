"""The protocol of graders and the grade of an answer. Code: `unit_tests.py`; pages: `page_similarity.py`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from sweet_rl.errors import UserError
from sweet_rl.records import Task
from sweet_rl.runs.manifest import hash_input


@dataclass(frozen=True)
class Grade:
    """The reward of one answer and the evidence for it.

    Attributes:
        reward: in [0, 1]; 1.0 is success. None if there is no reward: the reference cannot be graded against
            (`ungradable`), or the machine failed (`machine`).
        failure: kind of the answer's failure ("wrong value", "timeout", "no answer", "no page", ...); None if the
            answer has full marks or was not judged.
        ungradable: why the reference cannot be graded against; None for every ordinary task.
        machine: what the machine did to the answer, also when it was tried again alone (for example "ran out of
            wall time: 0.2 of 1.0 s of CPU time in 3.0 s"). Such an answer is not judged; grading it again may work.
        evidence: what the grader saw, JSON values: tests and sandbox level; similarity and encoder.
    """

    reward: float | None
    failure: str | None = None
    ungradable: str | None = None
    machine: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The value of the field `grade` in a graded trajectory."""
        row = {"failure": self.failure, "ungradable": self.ungradable, **self.evidence}
        return row | ({} if self.machine is None else {"machine": self.machine})


class Grader(Protocol):
    """Gives answers their reward. A context manager: `close` ends its processes."""

    def describe(self) -> str:
        """One line for people: how answers are graded on this machine."""
        ...

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order; an answer of None is a dialogue without one. Several are
        graded at once; `jobs` is read as far as that needs."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class FunctionGrader(AbstractContextManager):
    """A grader for rewards that are computed in this process, without running what the agent wrote.

    Args:
        reward: `reward(task, answer)` in [0, 1]. A dialogue without an answer gets 0.
    """

    reward: Callable[[Task, str], float]

    @cached_property
    def name(self) -> str:
        """The function and a hash of its file. Every grade has it, so that rewards of two rules are not compared."""
        file = inspect.getsourcefile(self.reward)
        known = f" ({hash_input(file)[:8]})" if file and Path(file).is_file() else ""  # a notebook's cell is no file
        return f"{self.reward.__module__}.{self.reward.__qualname__}{known}"

    def describe(self) -> str:
        return f"graded by {self.name}"

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """As `Grader.grade_many`. Raises UserError if a reward is not in [0, 1]."""
        for task, answer in jobs:
            reward = 0.0 if answer is None else float(self.reward(task, answer))
            if not 0 <= reward <= 1:
                raise UserError(f"{self.name} gives task {task.id} the reward {reward}; it must be in [0, 1].")
            yield Grade(reward, "no answer" if answer is None else None, evidence={"grader": self.name})

    def close(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
