"""The mean of pointwise information (PMI) and belief gain, both under one model, each over its own tokens.

    python scripts/rank_best_of_n.py --critic_type lab/critics/pmi_belief.py --critic_settings \
        '{"model_id": "mini", "normalize": "none", "env_model": "mini", "task_type": "mini"}' \
        --input_path candidates.jsonl --output_path ranked.jsonl

If the model were consistent, Bayes' rule would make a turn's belief gain its pointwise information plus that of the
reply. No language model is, so the two err in different places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.critics.belief_gain import BeliefGainCritic, BeliefGainSettings
from sweet_rl.method.critics import CriticType
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.runs.records import TurnCandidates


class PmiBeliefCritic(BeliefGainCritic):
    """Scores candidates by the mean of their pointwise information and their belief gain."""

    async def _texts(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        """The texts of every candidate's belief gain, then those of its pointwise information; so are `logps`."""
        return [*await super()._texts(record), *self._with_and_without_c(record)]

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The mean of both for each candidate of each record."""
        return self.combined(await super().scores(records))

    def combined(self, scores: list[list[float]]) -> list[list[float]]:
        """The scores of `logps` (belief gains, then pointwise information) as one score per candidate."""
        return [np.reshape(own, (2, -1)).mean(axis=0).tolist() for own in scores]


CRITIC = CriticType(BeliefGainSettings, PmiBeliefCritic.load)
