"""Each task gets the c of another one: in trajectory pairs, from which a critic then learns nothing of c, or in
dialogues, on which a critic that reads c is then wrong.

    python -m lab.ciphered.shuffle_c --input_path pairs_with_c.jsonl --output_path shuffled.jsonl
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from lab.ciphered.tasks import write_rows
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import PreferencePair, Trajectory, read_records


def exchanged(own: Mapping[str, str], seed: int = 0) -> dict[str, str]:
    """The c of another task for each task."""
    tasks = sorted(own)
    random.Random(seed).shuffle(tasks)
    return {task: own[following] for task, following in zip(tasks, [*tasks[1:], *tasks[:1]], strict=True)}


def main(input_path: str, output_path: str, seed: int = 0, dialogues: bool = False) -> None:
    """Exchange c among the tasks of a file.

    Args:
        input_path: Pairs with the reference solution in front.
        output_path: The same rows with the solution of another task.
        seed: Seed of the exchange.
        dialogues: Take trajectories instead of pairs; then it is their tasks' solution that is exchanged.
    """
    write_rows(output_path, _dialogues(input_path, seed) if dialogues else _pairs(input_path, seed))


def _dialogues(path: str, seed: int) -> list[dict]:
    read = list(read_records(path, Trajectory))
    other = exchanged({one.task.id: one.task.ground_truth for one in read}, seed)
    return [replace(one, task=replace(one.task, ground_truth=other[one.task.id])).to_dict() for one in read]


def _pairs(path: str, seed: int) -> list[dict]:
    rows = [pair.to_dict() for pair in read_records(path, PreferencePair)]
    other = exchanged({row["task_id"]: _hint(row["chosen"])["text"] for row in rows}, seed)
    for row in rows:
        for side in ("chosen", "rejected"):
            _hint(row[side])["text"] = other[row["task_id"]]
    return rows


def _hint(parts: list[dict]) -> dict:
    return next(part for part in parts if part.get("plain"))


if __name__ == "__main__":
    run(main)
