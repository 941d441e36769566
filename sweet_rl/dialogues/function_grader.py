"""The grader of a user's domain: a function `reward(task, answer)`, which runs in this process."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, cast

from sweet_rl.dialogues.protocols import Grade
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.records import Task

Reward = Callable[[Task, str], float | Grade | Awaitable[float | Grade]]


class FunctionGrader(AbstractContextManager):
    """A `Grader` that calls a function. An exception of the function ends the command with its own traceback.

    Args:
        reward: Function `reward(task, answer)` that returns a number in [0, 1] or a `Grade`, also as `async def`. A
            dialogue without an answer gets 0.
        source: File of the domain.
        concurrency: Number of answers that an `async def` judges at the same time.
    """

    def __init__(self, reward: Reward, source: Path | None = None, concurrency: int = 32) -> None:
        self.reward, self.source, self.concurrency = reward, source, concurrency

    @cached_property
    def name(self) -> str:
        """The function and a hash of its file. Every grade has it, so that rewards of two rules are not compared."""
        function: Any = self.reward if hasattr(self.reward, "__qualname__") else type(self.reward)
        version = "" if self.source is None else f" ({hash_input(self.source)[:8]})"
        return f"{function.__module__.partition('@')[0]}.{function.__qualname__}{version}"

    def describe(self) -> str:
        return f"graded by {self.name}"

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """See `Grader.grade_many`. Raises TypeError or UserError if a reward is no number in [0, 1]."""
        if not inspect.iscoroutinefunction(self.reward):
            for task, answer in jobs:
                yield self._no_answer if answer is None else self._grade(task, self.reward(task, answer))
            return
        waiting: deque[asyncio.Task[Grade]] = deque()
        left, limit = iter(jobs), asyncio.Semaphore(self.concurrency)

        async def judge(task: Task, answer: str) -> Grade:
            async with limit:
                return self._grade(task, await cast(Awaitable, self.reward(task, answer)))

        async def no_answer() -> Grade:
            return self._no_answer

        async def next_grade() -> Grade | None:
            for task, answer in islice(left, 4 * self.concurrency - len(waiting)):
                waiting.append(asyncio.create_task(no_answer() if answer is None else judge(task, answer)))
            return await waiting.popleft() if waiting else None

        with asyncio.Runner() as runner:
            while (grade := runner.run(next_grade())) is not None:
                yield grade

    @property
    def _no_answer(self) -> Grade:
        return Grade(0.0, "no answer", evidence={"grader": self.name})

    def _grade(self, task: Task, found: Any) -> Grade:
        if isinstance(found, Grade):
            return replace(found, evidence=found.evidence | {"grader": self.name})
        if found is None or isinstance(found, str):
            raise TypeError(f"{self.name} gives task {task.id} the reward {found!r}; it must be a number in [0, 1].")
        return Grade(found, evidence={"grader": self.name})

    def close(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
