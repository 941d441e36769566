"""What a critic of mini tasks prefers: decisions of the oracle, pairs of dialogues, mean scores of kinds of turns.

python -m lab.pretraining.measure --ranked_path ranked.jsonl --credited_path credited.jsonl --output_path true.json
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np

from lab.critics.credit_accuracy import credit_accuracy, judged, read_judged
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import Trajectory, read_records

KINDS = ("useful", "useless", "repeated", "early", "complete")
DECISIONS = ("useful over useless question", "question over early answer", "complete answer over question")


def dialogues(credited: list[Trajectory]) -> dict[str, float | None]:
    """How often the sum of a dialogue's turns is higher for the one that succeeded, and for the longer one, in %."""
    outcome, length = [], []
    tasks = defaultdict(list)
    for dialogue in credited:
        tasks[dialogue.task.id].append(dialogue)
    for a, b in (pair for own in tasks.values() for pair in product(own, own)):
        higher = 0.5 * (1 + np.sign(sum(a.turn_credit) - sum(b.turn_credit)))
        if (a.reward, b.reward) == (1.0, 0.0):
            outcome.append(higher)
        if len(a.turn_credit) > len(b.turn_credit):
            length.append(higher)
    return {
        name: _percent(np.mean(pairs)) if pairs else None for name, pairs in (("success", outcome), ("longer", length))
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * float(share), 2)


def main(ranked_path: str, credited_path: str, output_path: str) -> None:
    """Measure a critic.

    Args:
        ranked_path: Ranked candidates of mini tasks.
        credited_path: Graded dialogues of held-out tasks with `turn_credit`.
        output_path: JSON file of the figures.
    """
    right: dict[tuple[str, str], bool] = {}
    turns = [judged(row, right) for row in read_judged([ranked_path], right)[0]]
    groups = credit_accuracy([turns])["groups"]
    scores = defaultdict(list)
    for turn in turns:
        for word, score in zip(turn.words, turn.scores, strict=True):
            scores[word].append(score)
    found = {name: _percent(groups[name]["accuracy"]) for name in DECISIONS}
    found |= dialogues(read_records(credited_path, Trajectory))
    found |= {kind: round(float(np.mean(scores[kind])), 4) for kind in KINDS if scores[kind]}
    Path(output_path).write_text(json.dumps(found) + "\n")
    print(output_path, found)


if __name__ == "__main__":
    run(main)
