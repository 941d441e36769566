"""Belief gain that hears the human's reply to every candidate: `--critic_type belief_gain` with a human who is asked.

    python scripts/rank_best_of_n.py --critic_type lab/critics/belief_gain.py \
        --critic_settings '{"model_id": "mini", "env_model": "mini", "task_type": "mini"}' \
        --input_path candidates.jsonl --output_path ranked.jsonl

A reply that the record has is taken (the turns of a dialogue, score_turns.py). Without a human the critic is that of
the library.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from lab.critics.asked_human import AskedHuman
from sweet_rl.dialogues import Domain, Human
from sweet_rl.method import belief_gain
from sweet_rl.method.advantage import TurnNormalize
from sweet_rl.method.candidate_texts import REPLIES
from sweet_rl.method.critics import CriticType
from sweet_rl.method.sweet_critic import Score, TokenCriticSettings, load_models
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import TurnCandidates, seed_for

REPLIES_AT_ONCE = 64


@dataclass(frozen=True)
class BeliefGainSettings(AskedHuman, TokenCriticSettings):
    """The language model, and the human who is asked for a reply to each candidate.

    Attributes:
        seed: Random seed of the human's replies.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        AskedHuman.__post_init__(self)
        TokenCriticSettings.__post_init__(self)

    def to_settings(self) -> dict[str, Any]:
        """The settings that the scores depend on; the human by its name and hash."""
        names = ("model_id", "bf16", "normalize")
        asked = {"seed": self.seed, "human": self.identity()} if self.env_model else {}
        return {name: value for name, value in super().to_settings().items() if name in names} | asked


class BeliefGainCritic(belief_gain.BeliefGainCritic):
    """Scores candidates by their belief gain.

    Args:
        chat: Chat format of the model's tokenizer.
        model: Log-probs under the model.
        human: Human who replies to each candidate; None for no reply.
        normalize: As in `advantage`, over the tokens of the reference solution.
        seed: Random seed of the human's replies. Equal candidates of a turn get the same reply.
        domain: Domain of the human, which says whether the human can play a task.
    """

    def __init__(
        self,
        chat: ChatFormat,
        model: Score,
        human: Human | None = None,
        normalize: TurnNormalize = "turn",
        seed: int = 0,
        domain: Domain | None = None,
    ):
        super().__init__(chat, model, normalize)
        self._human, self._seed, self._domain = human, seed, domain
        self._asked = asyncio.Semaphore(REPLIES_AT_ONCE)

    @classmethod
    def load(cls, settings: BeliefGainSettings) -> BeliefGainCritic:
        """Load the model, on the GPU if there is one, and the human. Raises UserError if one cannot be loaded."""
        chat, (model,) = load_models(settings)
        return cls(chat, model, settings.make(), settings.normalize, settings.seed, settings.domain)

    async def close(self) -> None:
        """Close the connections to servers, and the human's model."""
        await super().close()
        model = getattr(self._human, "model", None)
        if model is not None:
            await model.close()

    async def _texts(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        if self._human is not None and self._domain is not None and REPLIES not in record.extra and record.task:
            self._domain.check([record.task], f"candidates {record.id!r}")
        return await super()._texts(record)

    async def _reply(self, record: TurnCandidates, index: int, text: str) -> str:
        if REPLIES in record.extra or self._human is None:
            return await super()._reply(record, index, text)
        dialogue = [*record.dialogue, {"role": "assistant", "content": text}]
        async with self._asked:
            reply = await self._human.reply(record.task, dialogue, seed_for(self._seed, record.id, text))
        return reply.text


CRITIC = CriticType(BeliefGainSettings, BeliefGainCritic.load)
