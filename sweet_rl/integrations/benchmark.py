"""A domain's tasks, played and graded one by one with any agent."""

from __future__ import annotations

import asyncio
import atexit
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.domain import Grader
from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.mini.human import MINI
from sweet_rl.dialogues.mini.tasks import TEST_SEED, make_tasks
from sweet_rl.dialogues.play import DialogueSetup, play
from sweet_rl.dialogues.simulate import PICTURES_KEPT
from sweet_rl.dialogues.simulated_human import HumanSettings
from sweet_rl.dialogues.task_types import ProtocolSettings, load_domain
from sweet_rl.evaluation.evaluate import grade_trajectories
from sweet_rl.models.base import Message, Sampling
from sweet_rl.rendering.renderer import PageRenderer
from sweet_rl.runs.cli import build
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_finished
from sweet_rl.runs.records import Task, Trajectory, read_records

NUM_MINI_TASKS = 400


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
        self.domain = domain = load_domain(self.task_type, ProtocolSettings(self.protocol, self.protocol_files))
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
        self._human = build(HumanSettings, self.human or {}, "human")
        self._human_prompt = "" if self.scripted_human else domain.human_template(self.user_prompt_path)
        self._begin = domain.begin(domain.agent_template(path=self.agent_prompt_path), self.max_turns)

    def load_tasks(self) -> list[Task]:
        """Return the tasks. Raises UserError if the file cannot be read or its tasks are of another domain."""
        if self.input_path is not None:
            check_finished(self.input_path)
            tasks = read_records(self.input_path, Task)
        elif self.domain is MINI:
            tasks = [Task.from_dict(row) for row in make_tasks(NUM_MINI_TASKS, TEST_SEED)]
        else:
            raise UserError(f"the domain {self.domain.name!r} has no tasks of its own: give input_path, a JSONL file.")
        self.domain.check(tasks, self.input_path or self.domain.name)
        return tasks

    def opening(self, task: Task) -> list[Message]:
        """Return the messages that the agent sees before its first turn."""
        return self._begin(task).observe()

    async def play(
        self, task: Task, agent: Any, human: Any = None, human_name: str = "", sample: int = 0
    ) -> Trajectory:
        """Play one dialogue, as simulate_interactions.py does.

        Args:
            task: Task of the dialogue.
            agent: The policy: an object with `chat`, which may be None, and `async complete(messages, sampling)`, which
                returns one `Completion` in a list. Every `ChatModel` is one.
            human: Such an object that plays the human; None for a scripted human.
            human_name: Name of that model, for the identity of the human in the trajectory.
            sample: Number of this dialogue among those of its task; it determines the seeds of all calls.

        Returns:
            The trajectory, not graded. If a side failed, its ending is "failed", and `failure` says why.
        """
        domain, draws, scripted = self.domain, self.domain.draws_pages, self.scripted_human
        window = self._grading.window() if draws else None
        renderer = self._renderer if draws else None
        setup = DialogueSetup(
            agent,
            domain.make_human(scripted or "", human, self._human_prompt, self._human, renderer),
            self._begin,
            self.sampling,
            label_turn=domain.label_turn,
            human_identity=domain.human_identity(
                None, scripted or human_name, self._human_prompt, self._human, window=window
            ),
            protocol=domain.protocol,
        )
        return await play(task, sample, setup)

    async def grade(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with its reward and the evidence for it, as evaluate_code.py or evaluate_html.py do.

        The reward is None if the dialogue failed, or the reference cannot be graded against (`grade["ungradable"]`).

        Raises:
            RuntimeError: The machine failed; grading again may work.
        """
        grader, threads = self._grader
        (graded,) = await asyncio.get_running_loop().run_in_executor(
            threads, lambda: list(grade_trajectories([trajectory], grader))
        )
        if machine := (graded.grade or {}).get("machine"):
            raise RuntimeError(f"{trajectory.id} was not graded: {machine}")
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
