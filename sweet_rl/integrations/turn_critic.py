"""The credit of each turn of a finished dialogue by a critic of this package (equation 2 of the paper)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from sweet_rl.credit.candidates import turns_of
from sweet_rl.credit.critics import CriticSettings, load_critic
from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory, TurnCandidates


class TurnCritic:
    """Scores the turns of dialogues, each as the only candidate of its turn.

    Args:
        settings: fields of `CriticSettings`; `model_id` is required.

    Raises:
        UserError: an unknown setting, a critic that cannot be loaded, or a judge, which only compares candidates.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        try:
            self.settings = CriticSettings(**settings)
        except TypeError as error:
            raise UserError(f"critic: {error}. It takes the fields of CriticSettings.") from error
        if self.settings.critic_type == "judge":
            raise UserError(
                "critic: a judge compares candidates of one turn, and a dialogue has one message per turn. Give a "
                "critic_type of log_ratio or value."
            )
        self._critic = load_critic(self.settings)
        self._one_call = asyncio.Semaphore(self._critic.calls_at_once)

    async def credit(self, trajectory: Trajectory) -> list[float]:
        """One number per turn of the agent, the answer included: its advantage, or its value with a value critic.

        Raises:
            UserError: the critic cannot score a turn, for example an empty message.
        """
        model = getattr(self._critic, "form", self._critic)  # whichever has the chat format
        reasons = [m.get("finish_reason") for m in trajectory.dialogue_history if m["role"] == "assistant"]
        records = [
            TurnCandidates(
                id=turn.id, task=turn.task, turn=turn.index, input=turn.input, older_output=turn.older_output,
                additional_outputs=[turn.older_output], additional_finish_reasons=[reasons[turn.index] or "stop"],
                tokenizer=turn.tokenizer, dialogue=turn.dialogue,
            )
            for turn in turns_of(trajectory, model)
        ]  # fmt: skip
        async with self._one_call:
            return [score for (score,) in await self._critic.scores(records)]
