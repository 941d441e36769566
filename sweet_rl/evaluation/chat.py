"""A person plays the human of a task, sees the credit of the agent's turns, and at the end the grader's verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.dialogues.play import DialogueSetup, play
from sweet_rl.dialogues.simulated_human import HumanReply
from sweet_rl.evaluation.evaluate import grade_trajectories
from sweet_rl.method.turn_credit import TurnScorer
from sweet_rl.models.base import ChatModel, Message, Sampling
from sweet_rl.runs.errors import UserError, masked, printable
from sweet_rl.runs.records import Task, Trajectory, content_id, read_records

PERSON = {"name": "person", "hash": content_id("person")}


@dataclass(frozen=True)
class Chat:
    """A dialogue between the agent and the person at the terminal, who is its `Human`.

    Attributes:
        domain: Domain of the task.
        task: The task. The person sees its reference solution, the agent does not.
        agent: The agent.
        agent_prompt: Template of its instructions (`Domain.agent_template`).
        sampling: Sampling of the agent's messages.
        max_turns: Largest number of messages of the agent.
        scorer: Critic whose credit the person sees; None shows none.
        ask: Function that shows a text and returns the person's next line.
        show: Function that shows a text.
    """

    domain: Domain
    task: Task
    agent: ChatModel
    agent_prompt: str
    sampling: Sampling
    max_turns: int = 10
    scorer: TurnScorer | None = None
    ask: Callable[[str], str] = input
    show: Callable[[str], None] = print

    def run(self) -> Trajectory:
        """The dialogue to its end, with its reward and, if the critic can score all turns, its `turn_credit`.

        If the agent fails, the dialogue so far with its `failure`.

        Raises:
            UserError: The input ends.
        """
        # Not runner.run, which only notes a first Ctrl-C while `input` waits for a line.
        with asyncio.Runner() as runner:
            return runner.get_loop().run_until_complete(self._run())

    async def _run(self) -> Trajectory:
        task = self.task
        wanted, known = task.problem_description, task.ground_truth
        self.show(printable(f"You want: {wanted}\nYou know, and the agent does not:\n{known}\n"))
        setup = DialogueSetup(
            self.agent,
            self,
            self.domain.begin(self.agent_prompt, self.max_turns),
            self.sampling,
            human_identity=PERSON,
            protocol=self.domain.protocol,
        )
        try:
            await self.agent.check()
            played = await play(self.task, 0, setup)
        finally:
            await self.agent.close()
        if played.failure is not None:
            return played
        played = replace(played, turn_credit=await self._show_last(played) or None)
        graded = await asyncio.to_thread(self._graded, played)
        grade = graded.grade or {}
        reason = grade.get("ungradable") or grade.get("failure") or grade.get("machine")
        reward = "none" if graded.reward is None else graded.reward
        self.show(f"reward: {reward} ({printable(reason)})" if reason else f"reward: {reward}")
        return graded

    def _graded(self, played: Trajectory) -> Trajectory:
        """The dialogue with its reward. Called in a thread, because an asynchronous reward has a loop of its own."""
        with self.domain.make_grader(CodeGrading()) as grader:
            (graded,) = grade_trajectories([played], grader)
        return graded

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """Show the agent's message with its credit and return what the person writes."""
        fingerprint = None if self.agent.chat is None else self.agent.chat.fingerprint
        await self._show_last(Trajectory(task, dialogue, tokenizer=fingerprint, protocol=self.domain.protocol))
        text = ""
        while not text:
            try:
                text = self.ask("you> ").strip()
            except EOFError:
                raise UserError("the input has ended before the dialogue has; nothing was written.") from None
        return HumanReply(text)

    async def _show_last(self, played: Trajectory) -> list[float]:
        """Show the agent's last message with its credit; return the credit of all turns, empty if there is none."""
        credit: list[float] = []
        note = ""
        if self.scorer is not None:
            try:
                (credit,) = await self.scorer.credit([played])
                note = f"   [credit {credit[-1]:+.3f}]" if credit else "   [no credit: a turn has no token]"
            except Exception as error:  # the person's dialogue is kept, whatever the critic does
                note = f"   [no credit: {masked(str(error)) or type(error).__name__}]"
        self.show(printable(f"agent> {played.dialogue_history[-1]['content']}{note}"))
        return credit


def chosen_task(domain: Domain, path: str | None, task: str) -> Task:
    """The task with this id, or at this place from 0, in a file; without a file a mini task made from the number.

    Raises:
        UserError: There is no such task.
    """
    if path is None:
        if domain.name != "mini" or not task.isdigit():
            raise UserError("missing: --input_path TASKS. Only mini tasks are made here, by their number.")
        return Task.from_dict(make_tasks(1, int(task))[0])
    tasks = read_records(path, Task)
    domain.check(tasks, path)
    for number, one in enumerate(tasks):
        if task in (one.id, str(number)):
            return one
    raise UserError(f"{path}: there is no task {task!r}: it has {len(tasks)}, numbered from 0.")
