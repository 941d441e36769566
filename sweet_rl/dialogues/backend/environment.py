"""Backend Programming (the paper, section 3): the agent asks about a vaguely described function, then writes it.

The reward is the share of hidden unit tests that the code passes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sweet_rl.dialogues.backend.calls import FORMS, read_tests
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.backend.released_rules import PaperGrader
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.simulated_human import LLMHuman
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CodeGrading:
    """How answers are run.

    Attributes:
        timeout: CPU seconds per test; ten times as many seconds by the clock.
        memory_mb: Memory that an answer may use, in MB.
        workers: Number of answers that are graded at the same time; two per core by default.
        sandbox: "seccomp", or "none" to run answers as plain processes, in a container (docs/safety.md).
        concurrency: Number of answers that an `async def reward` of a domain judges at the same time.
        paper_grader: Grade by the rules of the released code, only to compare with its figures.
    """

    timeout: float = 1.0
    memory_mb: int = 256
    workers: Annotated[int | None, UNRECORDED] = None
    sandbox: str = "seccomp"
    concurrency: Annotated[int, UNRECORDED] = 32
    paper_grader: bool = False


class CodeHuman(LLMHuman):
    """A human whose fixed sentences speak of code."""

    reminder = (
        "An earlier draft of your message repeated parts of the hidden code and was thrown away. "
        "Describe the behaviour in words only."
    )
    fallback = "(I should not show any code. Please ask me about one thing the function should do.)"


def make_grader(settings: CodeGrading) -> CodeGrader:
    """The grader of hidden tests, or that of the released rules."""
    kind = PaperGrader if settings.paper_grader else CodeGrader
    return kind(settings.timeout, settings.memory_mb, settings.workers, settings.sandbox)


def check_tasks(tasks: Sequence[Task], path: str) -> None:
    """Raise UserError if no task has tests; count the tasks with a test that is no hidden test, and name the first."""
    if not any(task.test_cases for task in tasks):
        raise UserError(
            f"{path}: no task has test_cases, by which code is graded. Give the task_type of these rows: FILE.py for "
            "one of your own; pages are graded by evaluate_html.py."
        )
    faults = []
    by_id = {task.id: task for task in tasks}
    for task in by_id.values():
        try:
            read_tests(task.test_cases, task.ground_truth)
        except ValueError as error:
            faults.append(f"task {task.id}: {error}")
    if faults:
        logger.warning(
            "%s: %d of %d tasks cannot be graded, so they get no reward and are not counted. %s. The first: %s",
            path, len(faults), len(by_id), FORMS, faults[0],
        )  # fmt: skip


DOMAIN = Domain(
    name="code",
    agent_prompt="code_agent.txt",
    human=CodeHuman,
    human_prompt="code_user.txt",
    max_reply_chars=400,
    grader=make_grader,
    check_tasks=check_tasks,
)
