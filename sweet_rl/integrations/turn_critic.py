"""The credit of each turn of a finished dialogue by a critic of this package (equation 2 of the paper)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from sweet_rl.credit.critics import CriticSettings, load_critic
from sweet_rl.credit.taken_turns import check_scores_turns, prompts_of, taken_turns
from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory


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
        check_scores_turns(self.settings)
        self._critic = load_critic(self.settings)
        self._one_call = asyncio.Semaphore(self._critic.calls_at_once)

    async def credit(self, trajectory: Trajectory) -> list[float]:
        """One number per turn of the agent, the answer included: its advantage, or its value with a value critic.

        Raises:
            UserError: the critic cannot score a turn, for example an empty message.
        """
        records = taken_turns(trajectory, prompts_of(self._critic))
        async with self._one_call:
            return [score for (score,) in await self._critic.scores(records)]
