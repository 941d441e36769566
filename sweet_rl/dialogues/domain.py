"""Everything that the scripts need to know about a domain, in one object: `DOMAIN = Domain(...)` at a file's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.answer_environment import AnswerEnvironment
from sweet_rl.dialogues.function_grader import FunctionGrader, Reward
from sweet_rl.dialogues.protocols import Grader, Human
from sweet_rl.dialogues.simulated_human import PROMPT_VALUES, HumanSettings, LLMHuman
from sweet_rl.models.base import ChatModel, Message
from sweet_rl.models.prompts import load_prompt
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.records import RELEASED, Task, content_id

TASK_VALUE = "problem_description"


@dataclass(frozen=True)
class ScriptedHuman:
    """A human that needs no model.

    Attributes:
        make: Function that makes the human: `make()`, or `make(renderer=PageRenderer)` in a domain that draws pages.
        check_tasks: Function `check_tasks(tasks, path)` that raises UserError if the human cannot play a task of the
            file `path`.
        revision: Number that is raised when the human's replies change, because its figures are then those of another
            human.
    """

    make: Callable[..., Human]
    check_tasks: Callable[[Sequence[Task], str], None] | None = None
    revision: int = 1


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
        agent_prompt_values: Names in braces that `agent_prompt` has to contain.
        agent_prompts: Instructions for agents that need their own, by `--agent_model`.
        human: Function that makes the human that a model plays: `human(model, human_prompt, max_chars=, retry_leaks=,
            temperature=, max_tokens=)`, and `renderer=` in a domain that draws pages.
        human_prompt: Instructions of that human, in the same form; None if only scripted humans play.
        human_prompt_values: Names in braces that `human_prompt` has to contain.
        max_reply_chars: Length at which the human's replies are cut (the paper, table 5: 400 backend, 1,000 frontend).
        max_reply_tokens: Largest number of tokens of one reply of the human.
        retries_leaks: Whether a reply that gives the reference solution away can be asked for again.
        scripted_humans: Humans without a model, by `--env_model`.
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
    agent_prompt_values: Sequence[str] = (TASK_VALUE,)
    agent_prompts: Mapping[str, str] = field(default_factory=dict)
    human: Callable[..., Human] = LLMHuman
    human_prompt: str | None = None
    human_prompt_values: Sequence[str] = PROMPT_VALUES
    max_reply_chars: int = 400
    max_reply_tokens: int = 256
    retries_leaks: bool = True
    scripted_humans: Mapping[str, ScriptedHuman] = field(default_factory=dict)
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
        """The agent's instructions: those at `path` if it is given, else those of the domain for this agent.

        Raises:
            UserError: There is no such file, it lacks a name of `agent_prompt_values`, or the protocol has its own.
        """
        self._check_own_prompts("--agent_prompt_path", path)
        if not self.agent_prompt_values:
            return self.agent_prompt
        prompt = path or self.agent_prompts.get(agent_model, self.agent_prompt)
        return _template(prompt, self.agent_prompt_values, ["max_turns"])

    def human_template(self, path: str | None = None) -> str:
        """The instructions of a human that a model plays: those at `path` if it is given, else those of the domain.

        Raises:
            UserError: There are none, no such file, a value is missing in it, or the protocol has its own.
        """
        self._check_own_prompts("--user_prompt_path", path)
        prompt = path or self.human_prompt
        if prompt is None:
            scripted = " or ".join(f"--env_model {name}" for name in self.scripted_humans)
            raise UserError(
                f"the domain {self.name!r} has no instructions for a human that a model plays: give "
                f"--user_prompt_path{f', or a scripted human: {scripted}' if scripted else ''}."
            )
        if not self.human_prompt_values:
            return prompt
        return _template(prompt, self.human_prompt_values, [])

    def _check_own_prompts(self, flag: str, path: str | None) -> None:
        if path is not None and self.protocol == RELEASED:
            raise UserError(
                f"{flag} is {path}, but --protocol released has prompts of its own, which its figures depend on. Leave "
                f"out {flag}, or give --protocol sweet_rl."
            )

    def begin(self, agent_prompt: str, max_turns: int) -> Callable[[Task], AnswerEnvironment]:
        """A function that makes the environment of a task."""
        return partial(self.environment, agent_prompt=agent_prompt, max_turns=max_turns)

    def make_human(
        self, name: str, model: ChatModel | None = None, human_prompt: str = "", renderer: Any = None, **settings: Any
    ) -> Human:
        """The scripted human called `name`, or else a human that `model` plays with `settings`."""
        pages = {"renderer": renderer} if self.draws_pages else {}
        if name in self.scripted_humans:
            return self.scripted_humans[name].make(**pages)
        return self.human(model, human_prompt, **pages, **settings)

    def make_grader(self, settings: Any) -> Grader:
        """The grader with these settings: `CodeGrading`, or `PageGrading` in a domain that draws pages."""
        if self.grader is not None:
            return self.grader(settings)
        assert self.reward is not None
        return FunctionGrader(self.reward, self.source, settings.concurrency)

    def limits(self, human: HumanSettings) -> HumanSettings:
        """The settings, with the domain's lengths of replies if they have none."""
        return replace(
            human,
            max_chars=human.max_chars or self.max_reply_chars,
            max_tokens=human.max_tokens or self.max_reply_tokens,
            retry_leaks=human.retry_leaks and self.retries_leaks,
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
        """Which human replied in a dialogue. Figures of different humans cannot be compared.

        Args:
            name: Name of the human; by default that of the script, or the last part of the model's.
            model: Scripted human, or model that plays the human. The other arguments matter only for a model.
            human_prompt: Instructions of the human.
            human: How the model plays the human.
            request: Fields of the requests to the model's server.
            window: What the human's view of a page depends on, in a domain that draws pages.
            folder: Folder of the model, whose content is hashed instead of the name; None if it is not on this disk.

        Returns:
            The field `human` of a trajectory: `name` for people, which two humans may share, and `hash`, 16 hex digits
            of all that the replies depend on.
        """
        facts: dict[str, Any] = {"source": None if self.source is None else hash_input(self.source)}
        if model in self.scripted_humans:
            facts |= {"script": model, "revision": self.scripted_humans[model].revision}
        else:
            facts |= {"model": model if folder is None else hash_input(folder), "prompt": human_prompt}
            facts |= {"request": request, **vars(self.limits(human or HumanSettings())), **(window or {})}
            facts |= {"protocol_files": dict(self.protocol_files)} if self.protocol_files else {}
        return {"name": name or Path(model).name, "hash": content_id(facts)}

    def check(self, tasks: Sequence[Task], path: str, human: str | None = None) -> None:
        """Check the tasks of the file `path`, also for the scripted human `human`. Raises UserError."""
        if self.check_tasks is not None:
            self.check_tasks(tasks, path)
        scripted = None if human is None else self.scripted_humans.get(human)
        if scripted is not None and scripted.check_tasks is not None:
            scripted.check_tasks(tasks, path)


def _template(prompt: str, needed: Sequence[str], known: Sequence[str]) -> str:
    """The template itself if `prompt` is one, else the content of the file of this name."""
    return prompt if f"{{{TASK_VALUE}}}" in prompt else load_prompt(prompt, needed, known)
