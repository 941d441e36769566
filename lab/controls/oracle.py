"""A critic that knows the hidden rules of mini tasks: what would the true order of the candidates be worth?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.critics.credit_accuracy import WORTH, agent_messages
from sweet_rl.dialogues.mini.oracle import is_answer, label_turn
from sweet_rl.method.critics import CriticType
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates


@dataclass(frozen=True)
class OracleSettings:
    """It has none."""


class Oracle:
    """See above."""

    def __init__(self, settings: OracleSettings) -> None:
        pass

    def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The worth of each text: of a question by the hidden rules, of an answer by its reward."""
        return [[_worth(record, place) for place in range(len(record.additional_outputs))] for record in records]


def _worth(record: TurnCandidates, place: int) -> float:
    text = record.additional_outputs[place]
    if is_answer(text):
        if record.answer_rewards is None:
            raise UserError(f"candidates {record.id}: no answer_rewards. Run grade_candidates.py on the file.")
        return WORTH["complete" if record.answer_rewards[place] == 1.0 else "wrong"]
    word = None if record.task is None else label_turn(record.task, agent_messages(record), text)
    if word is None:
        raise UserError(f"candidates {record.id}: the task has no hidden rules; only mini tasks have them.")
    return WORTH[word]


CRITIC = CriticType(OracleSettings, Oracle)
