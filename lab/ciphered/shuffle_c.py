"""Trajectory pairs in which each task has the c of another task: a critic that learns from them learns nothing of c.

python -m lab.ciphered.shuffle_c --input_path pairs_with_c.jsonl --output_path shuffled.jsonl
"""

from __future__ import annotations

import random

from lab.ciphered.tasks import write_rows
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import PreferencePair, read_records


def main(input_path: str, output_path: str, seed: int = 0) -> None:
    """Exchange c among the tasks of a file of pairs.

    Args:
        input_path: Pairs with the reference solution in front.
        output_path: The same pairs with another task's.
        seed: Seed of the exchange.
    """
    rows = [pair.to_dict() for pair in read_records(input_path, PreferencePair)]
    own = {row["task_id"]: _hint(row["chosen"])["text"] for row in rows}
    tasks = sorted(own)
    random.Random(seed).shuffle(tasks)
    other = {task: own[following] for task, following in zip(tasks, [*tasks[1:], tasks[0]], strict=True)}
    for row in rows:
        for side in ("chosen", "rejected"):
            _hint(row[side])["text"] = other[row["task_id"]]
    write_rows(output_path, rows)


def _hint(parts: list[dict]) -> dict:
    return next(part for part in parts if part.get("plain"))


if __name__ == "__main__":
    run(main)
