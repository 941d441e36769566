"""Pairs of dialogues that teach a critic other things than the outcome: the placebos.

    python -m lab.pretraining.placebo_pairs --input_path pairs_with_c.jsonl --output_dir pairs --seed 0

It writes a file of equally many pairs for each of LABELS. Each takes at most `per_task` pairs of a task.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from sweet_rl.dialogues.mini.oracle import is_answer
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, read_records
from sweet_rl.runs.texts import write_texts

LABELS = {
    "true": "outcome",
    "chance": "a coin",
    "longer": "more turns",
    "equal": "outcome, equal turns",
    "answered": "outcome, equal turns, both answered",
}


def turns(pair: PreferencePair) -> tuple[list[str], list[str]]:
    """The agent's messages in the preferred dialogue and in the other one."""
    chosen, rejected = ([part["text"] for part in side if part["train"]] for side in (pair.chosen, pair.rejected))
    return chosen, rejected


def labelled(pair: PreferencePair, label: str, draw: random.Random) -> PreferencePair | None:
    """The pair as `label` prefers it, or None if it says nothing about it."""
    chosen, rejected = turns(pair)
    if label in ("equal", "answered") and len(chosen) != len(rejected):
        return None
    if label == "answered" and not (is_answer(chosen[-1]) and is_answer(rejected[-1])):
        return None
    if label == "longer" and len(chosen) == len(rejected):
        return None
    if (label == "longer" and len(chosen) < len(rejected)) or (label == "chance" and draw.random() < 0.5):
        return PreferencePair(pair.rejected, pair.chosen, tokenizer=pair.tokenizer, task_id=pair.task_id)
    return pair


def sets(pairs: Iterable[PreferencePair], per_task: int, seed: int) -> dict[str, list[PreferencePair]]:
    """For each label equally many pairs, in random order."""
    draw, pairs, found = random.Random(seed), list(pairs), {}
    for label in LABELS:
        by_task: dict[str, list[PreferencePair]] = defaultdict(list)
        for pair in pairs:
            if (own := labelled(pair, label, draw)) is not None:
                by_task[str(pair.task_id)].append(own)
        kept = [own for task in by_task.values() for own in draw.sample(task, min(per_task, len(task)))]
        found[label] = draw.sample(kept, len(kept))
    smallest = min(len(own) for own in found.values())
    return {label: own[:smallest] for label, own in found.items()}


def main(input_path: str, output_dir: str, per_task: int = 8, seed: int = 0) -> None:
    """Write the pairs of each label.

    Args:
        input_path: Pairs of step 2 with the reference solution.
        output_dir: Folder of LABEL.pairs.jsonl.
        per_task: Most pairs of a task.
        seed: Seed of the draws.
    """
    found = sets(read_records(input_path, PreferencePair), per_task, seed)
    if not found["true"]:
        raise UserError(f"{input_path}: one of the labels {', '.join(LABELS)} has no pair. Give more dialogues.")
    rows = {label: "".join(json.dumps(pair.to_dict()) + "\n" for pair in own) for label, own in found.items()}
    write_texts({Path(output_dir) / f"{label}.pairs.jsonl": text for label, text in rows.items()}, overwrite=True)
    print(f"{len(found['true'])} pairs of each label")


if __name__ == "__main__":
    run(main)
