"""Preference pairs a second: this package against TRL's DPOTrainer, on data of SWEET-RL's shape.

    python -m venv peer && peer/bin/pip install torch==2.13.0 && peer/bin/pip install trl==1.16.0
    python benchmarks/dpo.py --peer_python peer/bin/python

Three kinds of data: `turn`, four pairs of one turn (a prompt of 1,000 tokens, eight completions of 60); `tasks`,
trajectory pairs of 5 turns as the paper's data have them, three dialogues of a task of which one succeeded, hence two
pairs that share it; `lone`, trajectory pairs that share nothing but their own prompt. Same random model, tokens, dtype,
optimiser and batch; both sides have their reference log-probs precomputed, and no text needs padding. TRL runs once
with each of `--peer_micro` pairs at once; then the two sides take turns `--repeats` times, TRL with the fastest of
them, and each ratio is given as the median and the range over these repeats. Time is that of whole optimiser steps,
the first left out; beside it that of the processors alone, which other work on the machine disturbs less. On turn
pairs the two must also agree in their losses. (TRL has no masks for several turns: on trajectory pairs it trains on
the replies too, at the same cost.) The last lines are the ratios.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from random_model import SHAPES, config_of, save_random_model, word_of
from timing import ratios, spread

from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError

HERE = Path(__file__).resolve().parent
KINDS = ("turn", "tasks", "lone")
TARGETS = {"turn": (4.0, 0.3), "tasks": (1.5, None)}  # times the speed, times the memory


@dataclass(frozen=True)
class Lengths:
    """Lengths in tokens.

    Attributes:
        prompt: of turn pairs.
        tokens: of each of the agent's turns.
        task_prompt: what stands before a dialogue (instructions, task, reference solution).
        reply: between two turns.
    """

    prompt: int = 1000
    tokens: int = 60
    task_prompt: int = 450
    reply: int = 50


def completion(draw: random.Random, tokens: int, vocabulary: int) -> str:
    """Random words, the last an EOS."""
    return " ".join(word_of(draw.randrange(3, vocabulary)) for _ in range(tokens - 1)) + " </s>"


def turn_pairs(draw: random.Random, prompt: int, tokens: int, vocabulary: int) -> list[dict]:
    """The four pairs of one turn."""
    text = completion(draw, prompt, vocabulary)
    said = [[(True, completion(draw, tokens, vocabulary))] for _ in range(8)]
    return [row(text, *said[2 * i : 2 * i + 2]) for i in range(4)]


def dialogue(draw: random.Random, tokens: int, reply: int, vocabulary: int) -> list[tuple[bool, str]]:
    """Five turns of the agent and the four replies between them."""
    parts = []
    for turn in range(5):
        parts.append((True, completion(draw, tokens, vocabulary)))
        if turn < 4:
            parts.append((False, completion(draw, reply, vocabulary)))
    return parts


def trajectory_pairs(
    draw: random.Random, prompt: int, tokens: int, reply: int, vocabulary: int, rejected: int
) -> list[dict]:
    """The pairs of one task: one dialogue that succeeded over each of `rejected` others."""
    text = completion(draw, prompt, vocabulary)
    first, *others = (dialogue(draw, tokens, reply, vocabulary) for _ in range(1 + rejected))
    return [row(text, first, other) for other in others]


def row(prompt: str, chosen: list[tuple[bool, str]], rejected: list[tuple[bool, str]]) -> dict:
    """One pair, as text for TRL and as parts for this package; both come to the same tokens."""
    head = {"text": prompt, "train": False}
    return {
        "prompt": prompt,
        "chosen": " " + " ".join(text for _, text in chosen),
        "rejected": " " + " ".join(text for _, text in rejected),
        "chosen_parts": [head, *({"text": text, "train": train} for train, text in chosen)],
        "rejected_parts": [head, *({"text": text, "train": train} for train, text in rejected)],
    }


def measured(python: str, program: str, job: dict, folder: Path) -> dict:
    """What a program says of a job, run in a process of its own."""
    (folder / "job.json").write_text(json.dumps(job))
    environment = {
        **os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(HERE.parent),
        "OMP_NUM_THREADS": str(job["threads"]), "WANDB_DISABLED": "true",
    }  # fmt: skip
    words = [python, str(HERE / "peers" / program), str(folder / "job.json"), str(folder / "result.json")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    result = json.loads((folder / "result.json").read_text())
    (began, cpu_began), *_, (ended, cpu_ended) = result["ends"]
    pairs = job["batch"] * (len(result["ends"]) - 1)
    return result | {
        "pairs_per_second": pairs / (ended - began),
        "pairs_per_cpu_second": pairs / (cpu_ended - cpu_began),
    }


def rows_of(kind: str, pairs: int, vocabulary: int, lengths: Lengths, seed: int) -> list[dict]:
    """At least `pairs` pairs of a kind, in whole turns or tasks, numbered."""
    draw, rows = random.Random(seed), []
    while len(rows) < pairs:
        if kind == "turn":
            rows += turn_pairs(draw, lengths.prompt, lengths.tokens, vocabulary)
        else:
            rejected = 2 if kind == "tasks" else 1
            rows += trajectory_pairs(draw, lengths.task_prompt, lengths.tokens, lengths.reply, vocabulary, rejected)
    return [row | {"id": str(number)} for number, row in enumerate(rows)]


def compare(kind: str, job: dict, peer_python: str, peer_micro: Sequence[int], repeats: int, folder: Path) -> str:
    """Measure both sides of one kind of data, print each figure, and return the line with the ratios."""
    ours = [measured(sys.executable, "sweet_dpo.py", job, folder)]
    print(f"{kind}: sweet_rl: {figures(ours[0])}", flush=True)
    peer = job | {"pairs": [job["pairs"][i] for i in ours[0]["order"]]}
    tried = {micro: measured(peer_python, "trl_dpo.py", peer | {"micro": micro}, folder) for micro in peer_micro}
    for micro, result in tried.items():
        print(f"{kind}: trl, {micro} pairs at once: {figures(result)}", flush=True)
    fastest = max(tried, key=lambda micro: tried[micro]["pairs_per_second"])
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(measured(sys.executable, "sweet_dpo.py", job, folder))
        print(f"{kind}: sweet_rl: {figures(ours[-1])}", flush=True)
        theirs.append(measured(peer_python, "trl_dpo.py", peer | {"micro": fastest}, folder))
        print(f"{kind}: trl: {figures(theirs[-1])}", flush=True)
    if kind == "turn":
        gap = max(abs(a - b) for a, b in zip(ours[0]["losses"], theirs[0]["losses"], strict=True))
        print(f"{kind}: largest difference between the losses of {len(ours[0]['losses'])} steps: {gap:.1e}")
    speed, cpu, memory = (
        spread(ratios([one[name] for one in ours], [one[name] for one in theirs]))
        for name in ("pairs_per_second", "pairs_per_cpu_second", "peak_bytes")
    )
    targets = zip(("speed", "memory"), TARGETS.get(kind, ()), strict=False)
    wanted = [f"{what} {value}" for what, value in targets if value]
    return (
        f"{kind}: {speed} times the pairs/s of TRL's fastest ({cpu} times by processor time), {memory} times its peak "
        "memory" + (f"; wanted {', '.join(wanted)}" if wanted else "")
    )


def main(
    peer_python: str,
    lengths: Lengths,
    shape: str = "25m",
    dtype: str = "auto",
    kinds: list[str] = KINDS,
    steps: int = 3,
    repeats: int = 5,
    batch: int = 4,
    peer_micro: list[int] = (4, 1),
    gradient_checkpointing: bool = False,
    threads: int = 2,
    seed: int = 0,
) -> None:
    """Measure both sides and print the ratios.

    Args:
        peer_python: interpreter of an environment with trl
        shape: of the random Llama: 25m, 135m, 1b, 3b or 8b
        dtype: of weights and optimiser: float32, bfloat16, or auto (bfloat16 on a GPU)
        kinds: turn, tasks, lone
        steps: optimiser steps that are timed, after one that is not
        repeats: processes of each side, in turns
        batch: pairs an optimiser step
        peer_micro: pairs that TRL takes at once; each is tried
    """
    if shape not in SHAPES:
        raise UserError(f"--shape is {shape!r}; it must be one of {', '.join(SHAPES)}.")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device == "cuda" else "float32"
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_random_model(str(folder / "model"), shape, getattr(torch, dtype), device)
        for kind in kinds:
            job = {
                "model": str(folder / "model"), "folder": str(folder / "out"), "batch": batch, "dtype": dtype,
                "pairs": rows_of(kind, batch * (steps + 1), config_of(shape).vocab_size, lengths, seed),
                "learning_rate": 1e-5, "beta": 0.1, "threads": threads,
                "gradient_checkpointing": gradient_checkpointing,
            }  # fmt: skip
            lines.append(compare(kind, job, peer_python, peer_micro, repeats, folder))
    print("\n".join(lines))


def figures(result: dict) -> str:
    """Speed and memory as text."""
    tokens = f", texts of {result['tokens'][0]} + {result['tokens'][1]} tokens" if "tokens" in result else ""
    speeds = f"{result['pairs_per_second']:.3f} pairs/s, {result['pairs_per_cpu_second']:.3f} a processor second"
    return f"{speeds}, peak {result['peak_bytes'] / 1e9:.2f} GB{tokens}"


if __name__ == "__main__":
    run(main)
