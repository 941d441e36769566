"""Other ways from the log-ratios of tokens to a score, for any critic that compares log-probs of tokens.

    python scripts/rank_best_of_n.py --critic_type lab/critics/aggregations.py --critic_settings \
        '{"critic_type": "pmi", "critic_settings": {"model_id": "mini"}, "normalize": "sqrt"}' \
        --input_path candidates.jsonl --output_path ranked.jsonl
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from sweet_rl.method.advantage import TURN_NORMALIZE, advantage
from sweet_rl.method.critics import ChosenCritic, CriticType
from sweet_rl.method.sweet_critic import TokenLogps
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates

Normalize = Literal["turn", "none", "sqrt", "top"]


@dataclass(frozen=True)
class Aggregation:
    """How the log-ratios of a turn's tokens become its score.

    Attributes:
        normalize: turn (mean), none (sum), sqrt (sum over the square root of their number) or top (mean over the
            `top_tokens` largest, whatever their sign; the first of equal ones).
        top_tokens: Number of tokens of top.
        clip: Size to which the log-ratio of each token is clipped first. None does not clip.

    Raises:
        UserError: A value that is not possible.
    """

    normalize: Normalize = "turn"
    top_tokens: int = 5
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.normalize not in get_args(Normalize):
            raise UserError(f"normalize is {self.normalize!r}; it must be one of {', '.join(get_args(Normalize))}.")
        if self.top_tokens < 1:
            raise UserError(f"top_tokens is {self.top_tokens}; it must be at least 1.")
        if self.clip is not None and not self.clip > 0:
            raise UserError(f"clip is {self.clip}; it must be above 0.")

    @property
    def by_token(self) -> bool:
        """Whether the log-ratio of each token is needed, so that a mean as the reference is not enough."""
        return self.normalize == "top" or self.clip is not None

    def score(self, critic: np.ndarray, reference: np.ndarray | Sequence[float] | float) -> float:
        """The score of a turn. Arguments as of `advantage`.

        Raises:
            ValueError: The turn has no tokens, or top or clip are to be applied to a reference of other tokens.
        """
        if not self.by_token and self.normalize in TURN_NORMALIZE:
            return advantage(critic, reference, self.normalize)
        own = np.asarray(critic, dtype=np.float64)
        if not self.by_token:
            return advantage(critic, reference, "none") / float(np.sqrt(own.size))
        other = np.asarray(reference, dtype=np.float64)
        if own.shape != other.shape or own.size == 0:
            raise ValueError("top and clip need the reference's log-prob of each token of the critic")
        ratios = own - other if self.clip is None else np.clip(own - other, -self.clip, self.clip)
        if self.normalize == "top":
            return float(ratios[np.argsort(-np.abs(ratios), kind="stable")[: self.top_tokens]].mean())
        total = float(ratios.sum())
        return {"turn": total / own.size, "none": total, "sqrt": total / float(np.sqrt(own.size))}[self.normalize]


@dataclass(frozen=True)
class AggregatedSettings(Aggregation):
    """A critic that compares log-probs of tokens, and how its log-ratios become a score.

    Attributes:
        critic_type: Critic: log_ratio, pmi, or a file of this folder.
        critic_settings: Settings of that critic.
    """

    critic_type: str = "log_ratio"
    critic_settings: dict = field(default_factory=dict)

    @property
    def chosen(self) -> ChosenCritic:
        """The critic whose log-probs are aggregated."""
        return ChosenCritic(self.critic_type, self.critic_settings)

    def models(self) -> list[str]:
        """Names of the models that are loaded."""
        return self.chosen.models()

    def inputs(self) -> list[str]:
        """Other files that are read."""
        return self.chosen.inputs()

    def to_settings(self) -> dict[str, Any]:
        """The settings that the scores depend on."""
        own = {"normalize": self.normalize, "clip": self.clip}
        return own | {"top_tokens": self.top_tokens if self.normalize == "top" else None} | self.chosen.to_settings()


class AggregatedCritic:
    """Scores candidates by another aggregation of a critic's log-ratios."""

    def __init__(self, settings: AggregatedSettings) -> None:
        self._checked = settings.chosen.load()
        self._critic: Any = self._checked.critic
        if not hasattr(self._critic, "logps"):
            raise UserError(f"critic_type {settings.critic_type}: it compares no log-probs of tokens.")
        self._aggregation = settings
        self.chat, self.eos_text = self._checked.chat, self._checked.eos_text
        self.turns_per_call, self.calls_at_once = self._checked.turns_per_call, self._checked.calls_at_once
        self.close = self._checked.close

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The score of each candidate of each record."""
        return (await scores_by(self._critic, records, [self._aggregation]))[0]


CRITIC = CriticType(AggregatedSettings, AggregatedCritic)


async def scores_by(
    critic: Any, records: Sequence[TurnCandidates], aggregations: Sequence[Aggregation]
) -> list[list[list[float]]]:
    """For each aggregation the scores of each candidate of each record, from log-probs that are computed once.

    Raises:
        UserError: An aggregation needs the log-prob of each token under the reference, and a record has only means or
            those of other tokens.
    """
    found = await critic.logps(records)
    if any(aggregation.by_token for aggregation in aggregations):
        for record, group in zip(records, found, strict=True):
            check_same_tokens(record, group, critic.chat)
    scores = [[[own.score(*pair) for pair in group] for group in found] for own in aggregations]
    return [critic.combined(own) for own in scores] if hasattr(critic, "combined") else scores


def check_same_tokens(record: TurnCandidates, logps: Sequence[TokenLogps], chat: ChatFormat) -> None:
    """Raise UserError if the reference's log-probs of a record are not those of the very tokens that were scored."""
    stored = record.additional_reference_logprobs
    if stored is None or not any(other is value for (_, other), value in zip(logps, stored, strict=False)):
        return  # because a reference model scored the same texts
    ids, found = record.additional_token_ids, None
    if not all(isinstance(value, list) for value in stored):
        found = "are means"
    elif ids is None or record.tokenizer != chat.fingerprint:
        found = "are of another tokenizer's tokens"
    if found:
        raise UserError(
            f"candidates {record.id!r}: top and clip compare the log-probs of each token, but those of sampling "
            f"{found}. Give the reference seed or seed_without_c, or normalize by turn, none or sqrt."
        )
