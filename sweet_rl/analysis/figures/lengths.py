"""How long the agent's messages are in each run: questions by turn, and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sweet_rl.analysis.figures.style import FACES, HATCHES, line_style, new_figure
from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.records import Trajectory


def message_lengths(trajectories: Sequence[Trajectory]) -> dict:
    """Mean lengths in tokens (in words where a run's token ids are not kept).

    Returns {unit, questions: {turn from 1: mean}, answers: mean or None, answered: share of dialogues that answer}.
    """
    said = [
        [message for message in trajectory.dialogue_history if message["role"] == "assistant"]
        for trajectory in trajectories
        if trajectory.ending != "failed"
    ]
    tokens = all(message.get("token_ids") is not None for messages in said for message in messages)
    questions: dict[int, list[int]] = {}
    answers: list[int] = []
    for messages in said:
        for turn, message in enumerate(messages, start=1):
            length = len(message["token_ids"]) if tokens else len(message["content"].split())
            if ANSWER_MARKER in message["content"]:
                answers.append(length)
            else:
                questions.setdefault(turn, []).append(length)
    return {
        "unit": "tokens" if tokens else "words",
        "questions": {turn: float(np.mean(values)) for turn, values in sorted(questions.items())},
        "answers": float(np.mean(answers)) if answers else None,
        "answered": len(answers) / len(said) if said else 0.0,
    }


def lengths(runs: Mapping[str, Sequence[Trajectory]], title: str = ""):
    """Questions by turn as lines, answers as bars with the share of dialogues that have one. Returns the figure."""
    measured = {name: message_lengths(trajectories) for name, trajectories in runs.items()}
    unit = next(iter(measured.values()))["unit"]
    figure, (by_turn, answers) = new_figure(2, width=8.6, height=3.6)
    places = list(range(len(measured)))[::-1]
    for number, (name, found) in enumerate(measured.items()):
        style = {key: value for key, value in line_style(number).items() if key != "capsize"}
        by_turn.plot(list(found["questions"]), list(found["questions"].values()), label=name, **style)
        answers.barh(places[number], found["answers"] or 0.0, 0.62, color=FACES[number % len(FACES)],
                     hatch=HATCHES[number % len(HATCHES)], edgecolor="black", linewidth=0.8)  # fmt: skip
        answers.annotate(f"{100 * found['answered']:.0f} % answer", (found["answers"] or 0.0, places[number]),
                         xytext=(3, -3), textcoords="offset points", fontsize=7.5)  # fmt: skip
    by_turn.set(xlabel="turn", ylabel=f"{unit} of a question", ylim=(0, 1.1 * by_turn.dataLim.y1))
    answers.set(xlabel=f"{unit} of an answer", yticks=places, yticklabels=list(measured))
    answers.margins(x=0.25)
    answers.grid(axis="y", visible=False)
    figure.legend(*by_turn.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(title, fontsize=10)
    return figure
