"""All that the scripts need to know about a domain, in one object. A user's file ends with `DOMAIN = Domain(...)`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.answer_environment import AnswerEnvironment
from sweet_rl.dialogues.simulated_human import (
    PROMPT_VALUES,
    REPLY_CHARS,
    REPLY_TOKENS,
    Human,
    HumanSettings,
    LLMHuman,
)
from sweet_rl.models.base import ChatModel, Message
from sweet_rl.models.prompts import check_prompt, load_prompt
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.records import RELEASED, Task, content_id

TASK_VALUE = "problem_description"


@dataclass(frozen=True)
class Grade:
    """The reward of one answer and the evidence for it.

    Attributes:
        reward: Number in [0, 1]; 1.0 is success. None if there is no reward: the reference cannot be graded against
            (`ungradable`), or the machine failed (`machine`).
        failure: Kind of the answer's failure ("wrong value", "timeout", "no answer", ...); None if the answer has full
            marks or was not judged.
        ungradable: Reason why the reference cannot be graded against.
        machine: Why this computer could not judge the answer, as when no browser starts. Grading it again may work.
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


class Grader(AbstractContextManager):
    """Gives answers their reward. It is a context manager, which calls `close` at its end."""

    def describe(self) -> str:
        """One line for people: how answers are graded on this machine."""
        raise NotImplementedError

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order; an answer of None is a dialogue without one."""
        raise NotImplementedError

    def grade(self, task: Task, answer: str | None) -> Grade:
        """The grade of one answer: the text as the agent gave it, fences and prose included; None if it gave none."""
        (grade,) = self.grade_many([(task, answer)])
        return grade

    def close(self) -> None:
        """End the processes of the grader. It cannot be used afterwards."""

    def __exit__(self, *_: object) -> None:
        self.close()


Reward = Callable[[Task, str], float | Grade | Awaitable[float | Grade]]


class FunctionGrader(Grader):
    """The `Grader` of `Domain.reward`. An exception of the function ends the command with its own traceback.

    Args:
        reward: The function. A dialogue without an answer gets 0.
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
                yield self._grade(task, Grade(0.0, "no answer") if answer is None else self.reward(task, answer))
            return
        waiting, limit = iter(jobs), asyncio.Semaphore(self.concurrency)

        async def judge(task: Task, answer: str | None) -> Grade:
            if answer is None:
                return self._grade(task, Grade(0.0, "no answer"))
            async with limit:
                return self._grade(task, await self.reward(task, answer))  # type: ignore[misc]

        async def judge_all(batch: list[tuple[Task, str | None]]) -> list[Grade]:
            return await asyncio.gather(*(judge(task, answer) for task, answer in batch))

        with asyncio.Runner() as runner:
            while batch := list(islice(waiting, 4 * self.concurrency)):
                yield from runner.run(judge_all(batch))

    def _grade(self, task: Task, reward: Any) -> Grade:
        if reward is None or isinstance(reward, str) or inspect.isawaitable(reward):
            raise TypeError(
                f"{self.name} gives task {task.id} the reward {reward!r}; it must be a number in [0, 1], and of an "
                "asynchronous function an `async def`."
            )
        try:
            grade = reward if isinstance(reward, Grade) else Grade(reward)
        except UserError as error:
            raise UserError(f"{self.name}, task {task.id}: {error}") from error
        return replace(grade, evidence=grade.evidence | {"grader": self.name})


@dataclass(frozen=True)
class Domain:
    """A domain, which `--task_type` names.

    Attributes:
        name: Name of the domain in manifests.
        reward: Function `reward(task, answer)` that returns a number in [0, 1] or a `Grade`; success is exactly 1. An
            `async def` judges --concurrency answers at the same time.
        grader: In place of `reward`, a grader of the package: `backend.environment.make_grader` runs code against
            `test_cases` in the sandbox, `frontend.environment.make_grader` compares pages.
        environment: Function that makes the environment of a task: `environment(task, agent_prompt=text,
            max_turns=number)`.
        agent_prompt: Instructions of the agent: a text with {problem_description} (and {max_turns}), or the name of a
            template in sweet_rl/models/prompts.
        agent_prompts: Instructions for agents that need their own, by `--agent_model`.
        human: Function that makes the human that a model plays: `human(model, human_prompt, settings=HumanSettings)`,
            and `renderer=` in a domain that draws pages.
        human_prompt: Instructions of that human, in the same form; None if only scripted humans play.
        human_prompt_values: Names in braces that `human_prompt` has to contain.
        max_reply_chars: Length at which the human's replies are cut (the paper, table 5: 400 backend, 1,000 frontend).
        max_reply_tokens: Largest number of tokens of one reply of the human.
        scripted_humans: Functions that make humans without a model, by `--env_model`: `make()`, or `make(renderer=)`
            in a domain that draws pages.
        label_turn: Function `label_turn(task, messages_before, text)` that returns a word that judges a turn of the
            agent by what the task hides, or None. It is recorded as `oracle` in the message; no agent, human or critic
            sees it.
        check_tasks: Function `check_tasks(tasks, path)` that raises UserError if the file `path` holds tasks of another
            domain.
        draws_pages: Whether the human and the grader look at pictures of pages. A model that plays the human then has
            to see pictures.
        min_gap: Smallest difference between two rewards whose dialogues make a pair. None: only a reward of 1 is
            preferred, to any lower one (the paper, section 4).
        protocol: Name of the protocol of the dialogues: sweet_rl, or released (`released/`). Figures of different
            protocols cannot be compared.
        protocol_files: SHA-256 of each file of the protocol by its path; empty for the package's own.
        source: File that the domain was read from; None for the package's own.

    Raises:
        UserError: The domain has no reward and no grader, or both.
    """

    name: str
    reward: Reward | None = None
    grader: Callable[[Any], Grader] | None = None
    environment: Callable[..., AnswerEnvironment] = AnswerEnvironment
    agent_prompt: str = f"{{{TASK_VALUE}}}"
    agent_prompts: Mapping[str, str] = field(default_factory=dict)
    human: Callable[..., Human] = LLMHuman
    human_prompt: str | None = None
    human_prompt_values: Sequence[str] = PROMPT_VALUES
    max_reply_chars: int = REPLY_CHARS
    max_reply_tokens: int = REPLY_TOKENS
    scripted_humans: Mapping[str, Callable[..., Human]] = field(default_factory=dict)
    label_turn: Callable[[Task, list[Message], str], str | None] | None = None
    check_tasks: Callable[[Sequence[Task], str], None] | None = None
    draws_pages: bool = False
    min_gap: float | None = None
    protocol: str = "sweet_rl"
    protocol_files: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None

    def __post_init__(self) -> None:
        if (self.reward is None) == (self.grader is None):
            raise UserError(f"the domain {self.name!r} needs `reward`, a function reward(task, answer), or `grader`.")

    def agent_template(self, agent_model: str = "", path: str | None = None) -> str:
        """The agent's instructions: those at `path` if it is given, else those of the domain for this agent. Raises
        UserError for a file that cannot be used, or a protocol that has its own."""
        self._check_own_prompts("agent_prompt_path", path)
        if self.protocol == RELEASED:
            return self.agent_prompt
        return _template(path or self.agent_prompts.get(agent_model, self.agent_prompt), [TASK_VALUE], ["max_turns"])

    def human_template(self, path: str | None = None) -> str:
        """The instructions of a human that a model plays, as in `agent_template`. UserError also if it has none."""
        self._check_own_prompts("user_prompt_path", path)
        prompt = path or self.human_prompt
        if prompt is None:
            raise UserError(
                f"the domain {self.name!r} has no instructions for a model that plays the human. Give user_prompt_path "
                f"or name a scripted human ({', '.join(self.scripted_humans) or 'it has none'})."
            )
        return prompt if self.protocol == RELEASED else _template(prompt, self.human_prompt_values, [])

    def _check_own_prompts(self, argument: str, path: str | None) -> None:
        if path is not None and self.protocol == RELEASED:
            raise UserError(f"the released protocol has prompts of its own: leave out {argument}, which is {path!r}.")

    def begin(self, agent_prompt: str, max_turns: int) -> Callable[[Task], AnswerEnvironment]:
        """A function that makes the environment of a task."""
        return partial(self.environment, agent_prompt=agent_prompt, max_turns=max_turns)

    def make_human(
        self,
        name: str,
        model: ChatModel | None = None,
        human_prompt: str = "",
        settings: HumanSettings | None = None,
        renderer: Any = None,
    ) -> Human:
        """The scripted human called `name`, or else a human that `model` plays with `settings`."""
        pages = {"renderer": renderer} if self.draws_pages else {}
        if name in self.scripted_humans:
            return self.scripted_humans[name](**pages)
        return self.human(model, human_prompt, settings=self.reply_settings(settings), **pages)

    def make_grader(self, settings: Any) -> Grader:
        """The grader with these settings: `CodeGrading`, or `PageGrading` in a domain that draws pages."""
        if self.reward is None:
            return self.grader(settings)  # type: ignore[misc]
        return FunctionGrader(self.reward, self.source, settings.concurrency)

    def reply_settings(self, human: HumanSettings | None = None) -> HumanSettings:
        """The settings, with the domain's lengths of replies if they have none; the released protocol retries none."""
        human = human or HumanSettings()
        return replace(
            human,
            max_chars=human.max_chars or self.max_reply_chars,
            max_tokens=human.max_tokens or self.max_reply_tokens,
            retry_leaks=human.retry_leaks and self.protocol != RELEASED,
        )

    def human_identity(
        self,
        name: str | None,
        model: str,
        human_prompt: str = "",
        human: HumanSettings | None = None,
        request: dict | None = None,
        window: dict | None = None,
        folder: str | None = None,
    ) -> dict[str, str]:
        """The field `human` of a trajectory: which human replied. Figures of different humans cannot be compared.

        Args:
            name: Name of the human; by default that of the script, or the last part of the model's.
            model: Scripted human, or model that plays the human. The other arguments matter only for a model.
            human_prompt: Instructions of the human.
            human: How the model plays the human.
            request: Fields of the requests to the model's server.
            window: What the human's view of a page depends on, in a domain that draws pages.
            folder: Folder of the model on this disk, whose content is hashed instead of the name.

        Returns:
            `name`, which two humans may share, and `hash`, 16 hex digits of all that the replies depend on.
        """
        facts: dict[str, Any] = {"source": None if self.source is None else hash_input(self.source)}
        if model in self.scripted_humans:
            facts |= {"script": model, "revision": 1}  # raised when the replies of a packaged one change
        else:
            facts |= {"model": model if folder is None else hash_input(folder), "prompt": human_prompt}
            facts |= {"request": request, **vars(self.reply_settings(human)), **(window or {})}
            facts |= {"protocol_files": dict(self.protocol_files)} if self.protocol_files else {}
        return {"name": name or Path(model).name, "hash": content_id(facts)}

    def check(self, tasks: Sequence[Task], path: str) -> None:
        """Check the tasks of the file `path`. Raises UserError."""
        if self.check_tasks is not None:
            self.check_tasks(tasks, path)


def _template(prompt: str, needed: Sequence[str], known: Sequence[str]) -> str:
    """The template itself if `prompt` is one, else the content of the file of this name."""
    if f"{{{TASK_VALUE}}}" not in prompt:
        return load_prompt(prompt, needed, known)
    return check_prompt(prompt, "of the domain", needed, known)
