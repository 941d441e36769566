"""A domain's tasks, dialogues and grades, for a tool that calls the models itself."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, cast

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.grading import grade_trajectories
from sweet_rl.dialogues.mini.domain import MINI
from sweet_rl.dialogues.mini.tasks import TEST_SEED, make_tasks
from sweet_rl.dialogues.play import DialogueSetup, play
from sweet_rl.dialogues.protocols import Grader
from sweet_rl.dialogues.simulate import PICTURES_KEPT
from sweet_rl.dialogues.simulated_human import HumanSettings
from sweet_rl.dialogues.task_types import ProtocolSettings, load_domain
from sweet_rl.isolation.rendering.renderer import PageRenderer
from sweet_rl.method.critics import CriticFlags
from sweet_rl.method.sweet_critic import SweetSettings
from sweet_rl.method.turn_credit import TurnScorer
from sweet_rl.models.base import ChatModel, Completion, Message, Sampling
from sweet_rl.runs.cli import build
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_finished
from sweet_rl.runs.records import Task, Trajectory, read_records

Call = Callable[[list[Message], Sampling], Awaitable[Completion]]
NUM_MINI_TASKS = 400
DIALOGUE, TASK = "dialogue", "task"  # names of the trajectory and of the task's row in the logs of the tools


class LimitReached(Exception):
    """A limit of the tool (tokens, messages, time) ended the dialogue."""


class DialogueFailed(Exception):
    """A dialogue that has no reward, because one side or the machine failed.

    Args:
        message: What happened. It may hold what a server or the reference solution wrote.
        shown: The same without such texts, for whoever plays the agent.
    """

    def __init__(self, message: str, shown: str = "the dialogue has no reward") -> None:
        super().__init__(message)
        self.shown = shown


class CalledModel:
    """A `ChatModel` whose calls the tool makes. It has no chat format, so that only `complete` is ever asked for.

    Args:
        call: Function `call(messages, sampling)` that returns one reply to the messages {role, content}.
        name: Name of the model, for the identity of the human that it plays.

    Attributes:
        error: The exception that the last call ended with, for the tool's own error handling; None if it replied.
    """

    chat = None

    def __init__(self, call: Call, name: str = "") -> None:
        self._call, self.name = call, name
        self.error: Exception | None = None

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        self.error = None
        try:
            plain: list[Message] = [{"role": message["role"], "content": message["content"]} for message in messages]
            return [await self._call(plain, sampling)]
        except Exception as error:
            self.error = error
            raise

    @classmethod
    def of(cls, model: ChatModel | None, name: str) -> CalledModel | None:
        """The same for one dialogue with a model of this package; None for None, as for a scripted human."""
        if model is None:
            return None

        async def call(messages: list[Message], sampling: Sampling) -> Completion:
            return (await model.complete(messages, sampling))[0]

        return cls(call, name)


@dataclass(eq=False)
class Benchmark:
    """Tasks of one domain, and how they are played and graded. The grader is made when it is first needed.

    Attributes:
        task_type: Domain: code, html, mini, or the path of a Python file with a DOMAIN.
        input_path: Tasks, JSONL. The mini tasks need none: those of make_mini_tasks.py's test.jsonl are made.
        scripted_human: Name of a human of the domain that needs no model; None: a model plays the human. `auto`: the
            scripted one of mini, elsewhere a model.
        max_turns: Number of messages that the agent may write.
        agent_prompt_path: Template with {problem_description}; the domain's by default, which says how to ask and to
            answer. The packaged agents were taught with `mini_agent.txt`.
        user_prompt_path: Template of a human that a model plays; the domain's by default.
        human: Fields of `HumanSettings`.
        grading: Fields of `CodeGrading`, or of `PageGrading` in a domain that draws pages.
        seed: Random seed.
        protocol: sweet_rl, or released, to compare with published figures (`task_types.ProtocolSettings`).
        protocol_files: Folder with the files of the released protocol, for machines without a network.

    Raises:
        UserError: An unknown domain or setting, or a prompt that cannot be used.
    """

    task_type: str
    input_path: str | None = None
    scripted_human: str | None = "auto"
    max_turns: int = 10
    agent_prompt_path: str | None = None
    user_prompt_path: str | None = None
    human: dict | None = None
    grading: dict | None = None
    seed: int = 0
    protocol: Literal["sweet_rl", "released"] = "sweet_rl"
    protocol_files: str | None = None

    def __post_init__(self) -> None:
        protocol = ProtocolSettings(self.protocol, self.protocol_files)
        self.domain = domain = load_domain(self.task_type, protocol)
        if self.scripted_human == "auto":
            self.scripted_human = next(iter(domain.scripted_humans)) if domain is MINI else None
        if self.scripted_human is not None and self.scripted_human not in domain.scripted_humans:
            raise UserError(
                f"{self.scripted_human!r} is no scripted human of the domain {domain.name!r}, which has "
                f"{', '.join(domain.scripted_humans) or 'none'}. Without one, a model plays the human."
            )
        if self.max_turns < 1:
            raise UserError(f"max_turns is {self.max_turns}; it must be at least 1.")
        self.sampling = Sampling(seed=self.seed)
        self._grading = build(PageGrading if domain.draws_pages else CodeGrading, self.grading or {}, "grading")
        self._human = domain.limits(build(HumanSettings, self.human or {}, "human"))
        self._human_prompt = "" if self.scripted_human else domain.human_template(self.user_prompt_path)
        self._begin = domain.begin(domain.agent_template(path=self.agent_prompt_path), self.max_turns)

    def load_tasks(self) -> list[Task]:
        """The tasks. Raises UserError if the file cannot be read or its tasks are of another domain."""
        if self.input_path is not None:
            check_finished(self.input_path)
            tasks = read_records(self.input_path, Task)
        elif self.domain is MINI:
            tasks = [Task.from_dict(row) for row in make_tasks(NUM_MINI_TASKS, TEST_SEED)]
        else:
            raise UserError(f"the domain {self.domain.name!r} has no tasks of its own: give input_path, a JSONL file.")
        self.domain.check(tasks, self.input_path or self.domain.name, self.scripted_human)
        return tasks

    def opening(self, task: Task) -> list[Message]:
        """The messages that the agent sees before its first turn."""
        return self._begin(task).observe()

    async def play(
        self,
        task: Task,
        sample: int,
        agent: CalledModel,
        human: CalledModel | None,
        on_cancel: Callable[[Trajectory], None] | None = None,
    ) -> Trajectory:
        """Play one dialogue, as simulate_interactions.py does.

        Args:
            task: Task of the dialogue.
            sample: Number of this dialogue among those of its task; it determines the seeds of all calls.
            agent: Model that is the policy.
            human: Model that plays the human; None for a scripted human.
            on_cancel: Function that gets the dialogue as it stands if this call is cancelled, as by a limit of time.

        Returns:
            The trajectory, not graded. One that a limit of the tool ended has the ending "turn_limit".

        Raises:
            DialogueFailed: One side failed; the cause is the exception of its call, if that is where it failed.
        """
        renderer = self._renderer if self.domain.draws_pages else None
        name = self.scripted_human or (human.name if human else "")
        player = self.domain.make_human(
            self.scripted_human or "", cast(ChatModel, human), self._human_prompt, renderer, **vars(self._human)
        )
        dialogue_setup = DialogueSetup(
            cast(ChatModel, agent),
            player,
            self._begin,
            self.sampling,
            label_turn=self.domain.label_turn,
            human_identity=self._identity(name),
            on_cancel=on_cancel and (lambda trajectory: on_cancel(_ended_by_limit(trajectory))),
            source=self.domain.source,
            protocol=self.domain.protocol,
        )
        trajectory = await play(task, sample, dialogue_setup)
        if trajectory.ending != "failed":
            return trajectory
        cause = agent.error or (human.error if human else None)
        if isinstance(cause, LimitReached):
            return _ended_by_limit(trajectory)
        failure = trajectory.failure or {}
        raise DialogueFailed(
            "{side}: {kind}: {message}".format(**failure), "{side}: {kind}".format(**failure)
        ) from cause

    def _identity(self, human: str) -> dict[str, str]:
        """{name, hash} of the human, as simulate_interactions.py gives it for the same model and settings."""
        window = self._grading.window() if self.domain.draws_pages else None
        return self.domain.human_identity(None, human, self._human_prompt, self._human, window=window)

    async def grade(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory with its reward and the evidence for it, as evaluate_code.py or evaluate_html.py gives them.

        The reward is None if the reference cannot be graded against (`grade["ungradable"]`).

        Raises:
            DialogueFailed: The machine failed; grading again may work.
        """
        grader, threads = self._grader

        def grade() -> Trajectory:
            (graded,) = grade_trajectories([trajectory], grader)
            return graded

        graded = await asyncio.get_running_loop().run_in_executor(threads, grade)
        if "machine" in (evidence := graded.grade or {}):
            raise DialogueFailed(f"{trajectory.id} was not graded: {evidence['machine']}", "the machine failed")
        return graded

    async def rewarded(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory with its reward, which is not None.

        Raises:
            DialogueFailed: The machine failed, or the task cannot be graded.
        """
        graded = await self.grade(trajectory)
        if graded.reward is None:
            reason = (graded.grade or {}).get("ungradable")
            raise DialogueFailed(f"{trajectory.id} cannot be graded: {reason}", "the task cannot be graded")
        return graded

    @cached_property
    def _renderer(self) -> PageRenderer:
        renderer = PageRenderer.from_settings(self._grading, cache=PICTURES_KEPT)
        atexit.register(renderer.close)
        return renderer

    @cached_property
    def _grader(self) -> tuple[Grader, ThreadPoolExecutor]:
        """The grader, and the threads that call it: as many as it has workers, or one."""
        grader = self.domain.make_grader(self._grading)
        atexit.register(grader.close)
        return grader, ThreadPoolExecutor(getattr(grader, "workers", 1))


def load_critic(settings: dict, where: str) -> TurnScorer:
    """The critic that gives the turns of dialogues without log-probs their credit.

    Args:
        settings: Flags of score_turns.py.
        where: Place of the settings, for errors.

    Raises:
        UserError: It cannot be loaded, or cannot score these turns.
    """
    chosen = build(CriticFlags, settings, where).chosen
    if isinstance(chosen.settings, SweetSettings) and chosen.settings.seed_model is None:
        raise UserError(
            f"{where}: a log-ratio needs a reference model, because the log-probs of sampling are not in these "
            "dialogues: give --reference_model_id MODEL, the model that the critic was trained from; or "
            "--critic_type pmi, which needs one model only."
        )
    chosen.check_models()
    return TurnScorer(chosen)


def _ended_by_limit(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, ending="turn_limit", failure=None)
