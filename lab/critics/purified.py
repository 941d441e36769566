"""Purified pointwise information: PMI less what the reference solution predicts about the turn without the dialogue.

    python scripts/rank_best_of_n.py --critic_type lab/critics/purified.py \
        --critic_settings '{"model_id": "mini", "purification": 0.5}' \
        --input_path candidates.jsonl --output_path ranked.jsonl

The score is log pi(a|o,c) - log pi(a|o) - lambda (log pi(a|c) - log pi(a)). In the texts of the last two terms one
empty message of the user stands for the dialogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweet_rl.method.advantage import TurnNormalize
from sweet_rl.method.critics import CriticType
from sweet_rl.method.sweet_critic import LogRatioCritic, PmiSettings, Score, TokenLogps, load_models, scored
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates


@dataclass(frozen=True)
class PurifiedSettings(PmiSettings):
    """The language model and lambda.

    Attributes:
        purification: Lambda, the weight of what the solution predicts without the dialogue.
    """

    purification: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.purification < float("inf"):
            raise UserError(f"purification is {self.purification}; it must be a number from 0.")


class PurifiedCritic(LogRatioCritic):
    """Scores candidates by their purified pointwise information.

    Args:
        chat: Chat format of the model's tokenizer.
        score: Log-probs under the model.
        purification: Lambda.
        normalize: As in `advantage`.
    """

    def __init__(
        self, chat: ChatFormat, score: Score, purification: float = 1.0, normalize: TurnNormalize = "turn"
    ) -> None:
        super().__init__(chat, score, score, hint=True, reference_hint=False, normalize=normalize)
        self._score, self._purification = score, purification

    @classmethod
    def load(cls, settings: PurifiedSettings) -> PurifiedCritic:
        """Load the model, on the GPU if there is one. Raises UserError if it cannot be loaded."""
        chat, (model,) = load_models(settings)
        return cls(chat, model, settings.purification, settings.normalize)

    async def logps(self, records: Sequence[TurnCandidates]) -> list[list[TokenLogps]]:
        """For each record and candidate the log-probs with c, purified token by token, and those without c."""
        prompt = self.chat.prompt([{"role": "user", "content": ""}])
        alone = [replace(record, input=prompt) for record in records]
        with_c = [text for group in self._texts(alone, True) for text in group]
        without_c = [text for group in self._texts(alone, False) for text in group]
        found = await scored(self._score, [*with_c, *without_c])
        by_c = zip(found[: len(with_c)], found[len(with_c) :], strict=True)
        pairs = await super().logps(records)
        return [
            [
                (own - self._purification * (told - untold), other)
                for (own, other), (told, untold) in zip(group, by_c, strict=False)
            ]
            for group in pairs
        ]


CRITIC = CriticType(PurifiedSettings, PurifiedCritic.load)
