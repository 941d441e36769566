"""A grader made of a function `reward(task, answer)`, for domains that need no sandbox and no browser."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sweet_rl.dialogues.protocols import Grade
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.records import Task


@dataclass(frozen=True)
class FunctionGrader(AbstractContextManager):
    """A grader for rewards that are computed in this process, without running what the agent wrote.

    Args:
        reward: Function `reward(task, answer)` with values in [0, 1]. A dialogue without an answer gets 0.
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
        """See `Grader.grade_many`. Raises UserError if a reward is not in [0, 1]."""
        for task, answer in jobs:
            reward = 0.0 if answer is None else float(self.reward(task, answer))
            if not 0 <= reward <= 1:
                raise UserError(f"{self.name} gives task {task.id} the reward {reward}; it must be in [0, 1].")
            yield Grade(reward, "no answer" if answer is None else None, evidence={"grader": self.name})

    def close(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
