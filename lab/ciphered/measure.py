"""How often a critic of ciphered tasks is right: on turns, and on whole dialogues.

    python -m lab.ciphered.measure --ranked_path ranked.jsonl --credited_path credited.jsonl \
        --exchanged_path exchanged.jsonl --output_path accuracy.json

`ranked` is an output of rank_best_of_n.py: of two candidates of one turn, one useful and the other not, does the useful
one have the higher score? Turns of dialogues whose outcome is decided are left out. `credited` is an output of
score_turns.py on graded dialogues: of two dialogues of a task, one with a reward of 1 and one of 0, does the first have
the higher sum? `exchanged` is the same with other tasks' solutions (shuffle_c.py): what is right there needs no c.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from lab.ciphered.domain import label_turn
from lab.critics.credit_accuracy import judged_turn, pair_outcomes
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import Trajectory, TurnCandidates, read_records

Right = dict[str, list[float]]
"""By task: right pairs (of equal scores a half each) and all pairs."""


def turn_pairs(path: str) -> tuple[Right, dict[int, list[float]]]:
    """Right and all pairs of each task; by turn whether each pair is right."""
    by_task: Right = defaultdict(lambda: [0.0, 0.0])
    by_turn: dict[int, list[float]] = defaultdict(list)
    for record in read_records(path, TurnCandidates):
        task = record.task
        assert task is not None, "step 4 keeps the task"
        turn = judged_turn(record, record.judge_scores or [], partial(label_turn, task))
        right = [outcome for _, outcome in pair_outcomes(turn.words, turn.scores)]
        by_task[turn.task][0] += sum(right)
        by_task[turn.task][1] += len(right)
        by_turn[turn.turn] += right
    return by_task, by_turn


def dialogue_pairs(path: str) -> Right:
    """Right and all pairs of dialogues of each task."""
    credit: dict[str, dict[float, list[float]]] = defaultdict(lambda: {0.0: [], 1.0: []})
    for dialogue in read_records(path, Trajectory):
        credit[dialogue.task.id][dialogue.reward].append(sum(dialogue.turn_credit))
    found = {}
    for task, own in credit.items():
        right = [0.5 * (1 + (a > b) - (a < b)) for a, b in product(own[1.0], own[0.0])]
        found[task] = [sum(right), len(right)]
    return found


def share(pairs: Right) -> float:
    """Share of right pairs in percent; a half where there are none."""
    right, every = np.asarray(list(pairs.values())).sum(axis=0)
    return float(100 * right / every) if every else 50.0


def spread(path: str) -> dict[str, float]:
    """How the credit of dialogues lies over turns: its mean at the last turn by outcome."""
    last: dict[float, list[float]] = {0.0: [], 1.0: []}
    for dialogue in read_records(path, Trajectory):
        last[dialogue.reward].append(dialogue.turn_credit[-1])
    return {f"last_turn_if_{int(reward)}": float(np.mean(values)) for reward, values in last.items()}


def main(ranked_path: str, credited_path: str, exchanged_path: str, output_path: str) -> None:
    """Measure a critic.

    Args:
        ranked_path: Ranked candidates.
        credited_path: Graded dialogues with `turn_credit`.
        exchanged_path: The same with the solutions of other tasks.
        output_path: JSON with the shares in percent, and each task's pairs.
    """
    by_task, by_turn = turn_pairs(ranked_path)
    dialogues = dialogue_pairs(credited_path)
    found = {
        "turns": share(by_task),
        "dialogues": share(dialogues),
        "exchanged": share(dialogue_pairs(exchanged_path)),
        "by_turn": {turn: round(100 * float(np.mean(right)), 2) for turn, right in sorted(by_turn.items())},
        **spread(credited_path),
        "turn_pairs": {task: pairs for task, pairs in by_task.items() if pairs[1]},
        "dialogue_pairs": {task: pairs for task, pairs in dialogues.items() if pairs[1]},
    }
    Path(output_path).write_text(json.dumps(found) + "\n")
    shares = ", ".join(f"{name} {found[name]:.1f} %" for name in ("turns", "dialogues", "exchanged"))
    print(f"{shares}, by turn {found['by_turn']}")


if __name__ == "__main__":
    run(main)
