"""A critic that knows the hidden rules of mini tasks: what would the true order of the candidates be worth?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.critics.credit_accuracy import ORDER, agent_messages
from sweet_rl.credit.answers import answer_rewards
from sweet_rl.credit.critics import CriticType
from sweet_rl.errors import UserError
from sweet_rl.mini.domains import MINI
from sweet_rl.mini.oracle import is_answer, label_turn
from sweet_rl.records import TurnCandidates


@dataclass(frozen=True)
class OracleSettings:
    """It has none."""


class Oracle:
    """See above."""

    turns_per_call = 10_000  # all answers are graded together

    def __init__(self, settings: OracleSettings) -> None:
        pass

    def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The worth of each text: of a question by the hidden rules, of an answer by its tests."""
        rewards = answer_rewards(MINI, records, "the candidates")

        def worth(record: TurnCandidates, text: str) -> float:
            assert record.task is not None  # or `answer_rewards` had said so
            if is_answer(text):
                return ORDER.worth["complete" if rewards.get((record.task.id, text)) == 1.0 else "wrong"]
            if (word := label_turn(record.task, agent_messages(record), text)) is None:
                raise UserError(f"candidates {record.id}: the task has no hidden rules; only mini tasks have them.")
            return ORDER.worth[word]

        return [[worth(record, text) for text in record.additional_outputs] for record in records]


CRITIC = CriticType(OracleSettings, Oracle)
