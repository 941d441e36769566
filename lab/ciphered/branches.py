"""Dialogues that branch from one shared turn, and pairs whose difference belongs to that turn alone.

python -m lab.ciphered.branches tasks --input_path trajectories.jsonl --output_path branching.jsonl
(simulate_interactions.py and evaluate_code.py on branching.jsonl, several dialogues a task)
python -m lab.ciphered.branches pairs --input_path pairs_with_c.jsonl --output_path branch_pairs.jsonl
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import fire

from lab.ciphered.tasks import write_rows
from sweet_rl.runs.records import PreferencePair, Trajectory, read_records


def tasks(input_path: str, output_path: str, seed: int = 0) -> None:
    """From the first dialogue of each task a task that begins with its messages up to a random turn."""
    draw = random.Random(seed)

    def rows() -> Iterator[dict]:
        seen = set()
        for dialogue in read_records(input_path, Trajectory):
            if dialogue.task.id not in seen:
                seen.add(dialogue.task.id)
                messages = dialogue.dialogue_history
                turn = draw.randrange(sum(message["role"] == "assistant" for message in messages))
                shared = messages[1 : 1 + 2 * turn]
                yield dialogue.task.to_dict() | {"id": f"{dialogue.task.id}-turn{turn}", "shared_messages": shared}

    write_rows(output_path, rows())


def pairs(input_path: str, output_path: str) -> None:
    """Pairs of such dialogues, up to the turn at which they branch, which alone is trained."""

    def rows() -> Iterator[dict]:
        for pair in read_records(input_path, PreferencePair):
            turn = int(pair.task_id.rsplit("-turn", 1)[1])
            yield pair.to_dict() | {side: _only(getattr(pair, side), turn) for side in ("chosen", "rejected")}

    write_rows(output_path, rows())


def _only(parts: list[dict], turn: int) -> list[dict]:
    own = [place for place, part in enumerate(parts) if part["train"]][turn]
    return [part | {"train": False, "turn": True} if part["train"] else part for part in parts[:own]] + [parts[own]]


if __name__ == "__main__":
    fire.Fire({"tasks": tasks, "pairs": pairs})
