"""A critic of 15 lines: the best turn has a given number of words."""

from dataclasses import dataclass

from sweet_rl.method.critics import CriticType


@dataclass(frozen=True)
class Settings:
    words: int = 8


class ShortTurns:
    def __init__(self, settings):
        self.words = settings.words

    def scores(self, records):
        return [[-abs(len(text.split()) - self.words) for text in record.additional_outputs] for record in records]


CRITIC = CriticType(Settings, ShortTurns)
