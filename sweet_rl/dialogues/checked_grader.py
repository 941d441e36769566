"""A grader of a user's own, with the number and the values of its grades checked before any of them is used."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.protocols import Grade, Grader
from sweet_rl.runs.errors import ItemError, UserError
from sweet_rl.runs.records import Task
from sweet_rl.runs.user_file import errors_named, shown

TOGETHER = 32  # answers; a grade that is missing is noticed before the others of its call are used


class CheckedGrader(AbstractContextManager):
    """A `Grader` around a user's grader, whose errors name the file and the line.

    The grader gets copies, `TOGETHER` answers in a call.

    Args:
        grader: The user's grader.
        source: The user's file, resolved; None if it is not known.
    """

    def __init__(self, grader: Any, source: Path | None = None) -> None:
        self.grader, self.name = grader, type(grader).__qualname__
        for method in ("describe", "grade_many", "close"):
            if not callable(getattr(grader, method, None)):
                raise UserError(f"the grader {self.name} has no method {method} (docs/your_own_domain.md).")
        self.source = source
        if source is None:
            with contextlib.suppress(OSError, TypeError):  # a class of a notebook's cell has no file
                self.source = Path(inspect.getfile(type(grader))).resolve()

    def describe(self) -> str:
        with errors_named(self.name, self.source):
            return str(self.grader.describe())

    def to_settings(self) -> dict[str, Any]:
        """What the grader has found, for the manifest."""
        with errors_named(self.name, self.source):
            return dict(getattr(self.grader, "to_settings", dict)())

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """See `Grader.grade_many`. Raises UserError unless there is one `Grade` for each job."""
        waiting = iter(jobs)
        while chunk := list(islice(waiting, TOGETHER)):
            yield from self._grades(chunk)

    def _grades(self, chunk: list[tuple[Task, str | None]]) -> list[Grade]:
        handed = copy.deepcopy(chunk)
        order = list(handed)
        with errors_named(self.name, self.source, passed=(ItemError,)):
            found = self.grader.grade_many(handed)
            if inspect.isawaitable(found) or hasattr(found, "__aiter__"):
                raise TypeError("grade_many is async; it is called without await: write `def grade_many`")
            grades = list(islice(found, len(chunk) + 1))
        if [id(job) for job in handed] != [id(job) for job in order]:
            raise UserError(f"{self.name}.grade_many changed the order of its jobs; sort a copy of the list.")
        if len(grades) != len(chunk):
            count = "more" if len(grades) > len(chunk) else str(len(grades))
            ids = f"{chunk[0][0].id} to {chunk[-1][0].id}"
            raise UserError(
                f"{self.name}.grade_many gave {count} grades for {len(chunk)} answers (tasks {ids}). Give one Grade "
                "for each, in order; for an answer that cannot be judged Grade(None, machine=REASON)."
            )
        for (task, _), grade in zip(chunk, grades, strict=True):
            if not isinstance(grade, Grade):
                raise UserError(f"{self.name}.grade_many gave task {task.id} {shown(grade)}; it must be a Grade.")
            try:
                json.dumps(grade.as_dict(), allow_nan=False)
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"{self.name}.grade_many gave task {task.id} evidence that is no JSON ({error}): use texts, "
                    "numbers, lists and dictionaries."
                ) from error
        return grades

    def close(self) -> None:
        with errors_named(self.name, self.source):
            self.grader.close()

    def __enter__(self) -> CheckedGrader:
        if hasattr(self.grader, "__enter__"):
            with errors_named(self.name, self.source):
                self.grader.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        with errors_named(self.name, self.source):
            self.grader.__exit__(*error) if hasattr(self.grader, "__exit__") else self.grader.close()


def checked(grader: Grader, source: Path | None = None) -> Grader:
    """The grader itself if it is one of this package, else with its grades checked."""
    return grader if type(grader).__module__.startswith("sweet_rl.") else CheckedGrader(grader, source)
