"""A critic that knows nothing: scores at random, equal texts of a turn alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from sweet_rl.method.critics import CriticType
from sweet_rl.runs.records import TurnCandidates, seed_for


@dataclass(frozen=True)
class ChanceSettings:
    """Settings of the critic.

    Attributes:
        seed: Seed of the draw.
    """

    seed: int = 0


class Chance:
    """See above."""

    def __init__(self, settings: ChanceSettings) -> None:
        self.seed = settings.seed

    def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """A number in [0, 1) for each text of a record."""
        found = []
        for record in records:
            draw = random.Random(seed_for(self.seed, record.id, "random_questions"))
            by_text = {text: draw.random() for text in dict.fromkeys(record.additional_outputs)}
            found.append([by_text[text] for text in record.additional_outputs])
        return found


CRITIC = CriticType(ChanceSettings, Chance)
