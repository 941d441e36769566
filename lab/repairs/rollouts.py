"""A critic that plays mini dialogues on from each candidate: their mean reward (Monte Carlo). It never sees c."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sweet_rl.dialogues import AnswerEnvironment
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.mini.domain import MINI
from sweet_rl.dialogues.mini.human import MiniHuman
from sweet_rl.dialogues.play import DialogueSetup, play
from sweet_rl.method.critics import CriticType
from sweet_rl.models.base import ChatModel, Completion, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part, Task, Trajectory, TurnCandidates, seed_for


@dataclass(frozen=True)
class RolloutSettings:
    """Settings of the critic.

    Attributes:
        model_id: The agent that goes on with the dialogues: a mini agent.
        rollouts: Number of dialogues from each text.
        max_turns: Number of messages of the agent in a dialogue.
        max_tokens: Largest number of tokens of a message.
        seed: Seed of the dialogues.
    """

    model_id: str
    rollouts: int = 2
    max_turns: int = 10
    max_tokens: int = 160
    seed: int = 0

    def models(self) -> list[str]:
        return [self.model_id]


class Beginning:
    """A model that says a given text first, and then what `model` says."""

    def __init__(self, model: ChatModel, text: str) -> None:
        self.model, self.chat, self.texts = model, model.chat, [text]

    async def complete_parts(self, parts: Sequence[Part], *how) -> list[Completion]:
        if self.texts:
            return [Completion(self.texts.pop(), None, None, "stop")]
        return await self.model.complete_parts(parts, *how)


class Rollouts:
    """See above."""

    turns_per_call = 64

    def __init__(self, settings: RolloutSettings) -> None:
        self.settings, self.model = settings, load_model(settings.model_id)
        self._begin = MINI.begin(MINI.agent_template("mini"), settings.max_turns)

    async def close(self) -> None:
        await self.model.close()

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The mean reward of the dialogues from each text; equal texts of a turn have one score.

        Raises:
            UserError: A dialogue cannot be begun as it was, or it failed.
        """
        jobs = [
            (record, text, number)
            for record in records
            for text in dict.fromkeys(record.additional_outputs)
            for number in range(self.settings.rollouts)
        ]
        played = await asyncio.gather(*(self._play(*job) for job in jobs))
        with MINI.make_grader(CodeGrading()) as grader:
            grades = list(grader.grade_many((one.task, one.answer) for one in played))
        rewards: dict[tuple[str, str], list[float]] = {}
        for (record, text, _), grade in zip(jobs, grades, strict=True):
            if grade.reward is None:
                raise UserError(f"candidates {record.id}: a dialogue could not be graded ({grade.machine}).")
            rewards.setdefault((record.id, text), []).append(grade.reward)
        return [[float(np.mean(rewards[one.id, text])) for text in one.additional_outputs] for one in records]

    async def _play(self, record: TurnCandidates, text: str, number: int) -> Trajectory:
        seed = seed_for(self.settings.seed, record.id, text, "rollouts")
        sampling = Sampling(max_tokens=self.settings.max_tokens, seed=seed)
        setup = DialogueSetup(Beginning(self.model, text), MiniHuman(), self._resume(record), sampling)
        played = await play(record.task, number, setup)
        if played.failure:
            raise UserError(f"candidates {record.id}: a dialogue failed: {played.failure['message']}")
        return played

    def _resume(self, record: TurnCandidates) -> Callable[[Task], AnswerEnvironment]:
        """What begins a dialogue as it stands before the turn."""
        if record.task is None or record.dialogue is None:
            raise UserError(f"candidates {record.id}: need 'task' and 'dialogue', which sample_best_of_n.py writes.")
        said = [message["content"] for message in record.dialogue]

        def begin(task: Task) -> AnswerEnvironment:
            environment = self._begin(task)
            for question, reply in zip(said[1::2], said[2::2], strict=True):
                environment.step(Completion(question, None, None, "stop"))
                environment.add_human_reply(reply)
            return environment

        return begin


CRITIC = CriticType(RolloutSettings, Rollouts)
