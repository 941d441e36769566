"""A critic that says nothing: scores at random. For --critic_type of rank_best_of_n.py."""

from dataclasses import dataclass

import numpy as np

from sweet_rl.method.critics import CriticType
from sweet_rl.runs.records import seed_for


@dataclass(frozen=True)
class Settings:
    seed: int = 0


class AtRandom:
    def __init__(self, settings):
        self.seed = settings.seed

    def scores(self, records):
        return [self._draw(record.id).normal(size=len(record.additional_outputs)).tolist() for record in records]

    def _draw(self, name):
        return np.random.default_rng(seed_for(self.seed, name, "random critic"))


CRITIC = CriticType(Settings, AtRandom)
