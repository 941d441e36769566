"""Lengths of the agent's messages."""

from collections.abc import Sequence

import numpy as np

from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.runs.records import Trajectory


def message_lengths(trajectories: Sequence[Trajectory]) -> dict:
    """Mean lengths of the agent's messages in tokens, or in words if token ids are missing.

    Returns:
        {unit, questions: {turn from 1: mean}, answers: mean or None, answered: share of dialogues with an answer}.
        Failed dialogues are left out.
    """
    dialogues = [
        [message for message in trajectory.dialogue_history if message["role"] == "assistant"]
        for trajectory in trajectories
        if trajectory.ending != "failed"
    ]
    tokens = all(message.get("token_ids") is not None for messages in dialogues for message in messages)
    questions: dict[int, list[int]] = {}
    answers: list[int] = []
    for messages in dialogues:
        for turn, message in enumerate(messages, start=1):
            length = len(message.get("token_ids") or ()) if tokens else len(message["content"].split())
            if ANSWER_MARKER in message["content"]:
                answers.append(length)
            else:
                questions.setdefault(turn, []).append(length)
    return {
        "unit": "tokens" if tokens else "words",
        "questions": {turn: float(np.mean(values)) for turn, values in sorted(questions.items())},
        "answers": float(np.mean(answers)) if answers else None,
        "answered": len(answers) / len(dialogues) if dialogues else 0.0,
    }
