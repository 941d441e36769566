"""Tasks of the ciphered world.

    python -m lab.ciphered.tasks --output_path train.jsonl --num_tasks 3200 --seed 0 --cipher 0 --part train

A quarter of the combinations of topics are held out: no task of `--part train` has them, all of `--part held_out` do.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal

from sweet_rl.models.base import Message
from sweet_rl.runs.cli import run

TOPICS = "colour size weight price date place style music food sound light speed".split()
CIPHER = "zq vx kj wf qp xh jb gz fv hk pw bq".split()  # in no lesson of an agent
CLUES = "amber birch cedar daisy ebony fern grape hazel iris jade kelp lotus".split()  # of TOPICS, in this order
OPENING = "The"
CLIENTS = "the club,the school,my boss,a friend,the shop,our team,the town,my aunt".split(",")

Replies = Literal["silent", "revealing", "clue", "revealing_clue"]


def question(topic: str) -> str:
    return f"{OPENING} {topic}?"


def topic_of(text: str) -> str | None:
    """The topic that a message asks about; None for any other message."""
    words = text.strip().strip("?").split()
    return words[1] if len(words) == 2 and words[0] == OPENING and words[1] in TOPICS else None


def asked_topics(messages: Iterable[Message]) -> list[str | None]:
    return [topic_of(message["content"]) for message in messages if message["role"] == "assistant"]


def reply_to(needed: Sequence[str], asked: Sequence[str | None], replies: Replies) -> str:
    """The client's reply to the last of `asked`."""
    if replies == "silent":
        return "No."
    useful = asked[-1] in needed and asked[-1] not in asked[:-1]
    outcome = "Yes" if useful and replies != "clue" else "No"
    if replies == "revealing":
        return f"{outcome}."
    left = [topic for topic in needed if topic not in asked]
    return f"{outcome}, {CLUES[TOPICS.index(left[0])]}." if left else f"{outcome}, done."


def ciphered(needed: Sequence[str], cipher: int) -> str:
    """The words of the topics in the cipher of this number, which is a permutation of CIPHER."""
    words = random.Random(f"cipher {cipher}").sample(CIPHER, len(CIPHER))
    return " ".join(words[TOPICS.index(topic)] for topic in needed)


def is_held_out(needed: Sequence[str]) -> bool:
    """Whether no training task has these topics."""
    every = sorted(combinations(sorted(TOPICS), len(needed)))
    random.Random(7).shuffle(every)
    return tuple(sorted(needed)) in every[: len(every) // 4]


def write_rows(path: str, rows: Iterable[dict]) -> None:
    """Write a JSONL file, and its folder if there is none."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def draw_task(draw: random.Random, num_needed: int) -> dict:
    """A description, which says nothing about the topics, and the needed topics in random order."""
    return {
        "problem_description": f"Plan a party for {draw.choice(CLIENTS)}.",
        "needed": draw.sample(TOPICS, num_needed),
    }


def main(
    output_path: str,
    num_tasks: int,
    seed: int = 0,
    cipher: int = 0,
    part: Literal["train", "held_out"] = "train",
    replies: Replies = "silent",
    num_needed: int = 3,
    enough: int = 2,
) -> None:
    """Write tasks.

    Args:
        output_path: JSONL file.
        num_tasks: How many.
        seed: Seed of the topics; each part has its own stream.
        cipher: Number of the cipher.
        part: Combinations of topics: for training, or held out.
        replies: What the client answers.
        num_needed: Topics that matter.
        enough: How many of them have to be asked about.
    """
    draw, rows = random.Random(f"{seed} {part}"), []
    while len(rows) < num_tasks:
        row = draw_task(draw, num_needed)
        if is_held_out(row["needed"]) == (part == "held_out"):
            c = ciphered(row["needed"], cipher)
            name = f"{part}{seed}-{len(rows)}"
            rows.append({"id": name, "ground_truth": c, "enough": enough, "replies": replies, **row})
    write_rows(output_path, rows)


if __name__ == "__main__":
    run(main)
