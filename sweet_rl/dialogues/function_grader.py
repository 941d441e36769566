"""A grader made of a function `reward(task, answer)`, for domains that need no sandbox and no browser."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.protocols import Grade
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, content_id
from sweet_rl.runs.user_file import errors_named, finite_number, hash_user_file, shown

LONGEST = 60  # characters of arguments in a name
PLAIN = (str, int, float, bool, tuple, type(None))


@dataclass(frozen=True)
class FunctionGrader(AbstractContextManager):
    """A grader for rewards that are computed in this process, without running what the agent wrote.

    Args:
        reward: Function `reward(task, answer)` with values in [0, 1], which gets copies. A dialogue without an answer
            gets 0.
    """

    reward: Callable[[Task, str], float]

    @cached_property
    def name(self) -> str:
        """The function and a hash of its file. Every grade has it, so that rewards of two rules are not compared."""
        known = "" if self._file is None else f" ({hash_user_file(self._file)[:8]})"
        module = str(self._function.__module__).partition("@")[0]
        return f"{module}.{self._function.__qualname__}{self._given}{known}"

    @cached_property
    def _function(self) -> Any:
        """The function of a partial; the class of an object that is called."""
        function: Any = self.reward
        while isinstance(function, partial):
            function = function.func
        return function if hasattr(function, "__qualname__") else type(function)

    @cached_property
    def _given(self) -> str:
        """What else decides a reward, in brackets; long texts as a hash.

        These are the arguments of a partial, and the plain values that a function of a function has kept, or the object
        that is called or whose method it is.
        """
        given, function = [], self.reward
        while isinstance(function, partial):
            given += [*map(repr, function.args), *(f"{name}={value!r}" for name, value in function.keywords.items())]
            function = function.func
        if inspect.isfunction(function):
            kept = dict(inspect.getclosurevars(function).nonlocals)
        else:
            kept = dict(getattr(getattr(function, "__self__", function), "__dict__", {}))
        given += [f"{name}={value!r}" for name, value in kept.items() if isinstance(value, PLAIN)]
        text = re.sub(" at 0x[0-9a-f]+", "", ", ".join(given))
        return f"({text if len(text) <= LONGEST else content_id(text)})" if given else ""

    @cached_property
    def _file(self) -> Path | None:
        try:
            file = inspect.getsourcefile(self._function)
        except TypeError:  # built into Python, or a class of a notebook
            return None
        return Path(file).resolve() if file and Path(file).is_file() else None  # a notebook's cell is no file

    def describe(self) -> str:
        return f"graded by {self.name}"

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """See `Grader.grade_many`. Raises UserError if the function fails, or a reward is no number in [0, 1]."""
        for task, answer in jobs:
            reward = 0.0 if answer is None else self._reward(task, answer)
            yield Grade(reward, "no answer" if answer is None else None, evidence={"grader": self.name})

    def _reward(self, task: Task, answer: str) -> float:
        with errors_named(f"{self.name}, task {task.id}", self._file):
            found = self.reward(copy.deepcopy(task), answer)
        reward = finite_number(found)
        if reward is None or not 0 <= reward <= 1:
            if inspect.iscoroutine(found):
                found.close()
            value = shown(found) if reward is None else str(reward)
            remedy = " Write float(...) around it." if isinstance(found, bool) else ""
            raise UserError(
                f"{self.name} gives task {task.id} the reward {value}; it must be a number in [0, 1].{remedy}"
            )
        return reward

    def close(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
