"""Preference pairs a second: this package against TRL's DPOTrainer, on data of SWEET-RL's shape.

    python -m venv peer && peer/bin/pip install torch==2.13.0 && peer/bin/pip install trl==1.16.0
    python benchmarks/dpo.py --peer_python peer/bin/python

Three kinds of data: `turn`, four pairs of one turn (a prompt of 1,000 tokens, eight completions of 60); `tasks`,
trajectory pairs of 5 turns as the paper's data have them, three dialogues of a task of which one succeeded, hence two
pairs that share it; `lone`, trajectory pairs that share nothing but their own prompt. Same random model, tokens, dtype,
optimiser and batch; both sides have their reference log-probs precomputed, and no text needs padding. TRL runs with
each of `--peer_micro` pairs at once, and the fastest counts. Time is that of whole optimiser steps, the first left
out; beside it that of the processors alone, which other work on the machine disturbs less. On turn pairs the two must
also agree in their losses. (TRL has no masks for several turns: on trajectory pairs it trains on the replies too, at
the same cost.) The last lines are the ratios.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from random_model import SHAPES, config_of, save_random_model, word_of

from sweet_rl.cli import run
from sweet_rl.errors import UserError

HERE = Path(__file__).resolve().parent
KINDS = ("turn", "tasks", "lone")
TARGETS = {"turn": 4.0, "tasks": 1.5}


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
        "pairs_per_second": pairs / (ended - began), "pairs_per_cpu_second": pairs / (cpu_ended - cpu_began)
    }


def main(
    peer_python: str,
    shape: str = "25m",
    dtype: str = "auto",
    kinds: list[str] = KINDS,
    steps: int = 3,
    batch: int = 4,
    peer_micro: list[int] = (4, 1),
    prompt: int = 1000,
    tokens: int = 60,
    task_prompt: int = 450,
    reply: int = 50,
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
        batch: pairs an optimiser step
        peer_micro: pairs that TRL takes at once; each is tried
        prompt, tokens: of turn pairs; tokens also of each turn of a dialogue
        task_prompt, reply: what stands before a dialogue (instructions, task, reference solution), and between turns
    """
    if shape not in SHAPES:
        raise UserError(f"--shape is {shape!r}; it must be one of {', '.join(SHAPES)}.")
    if dtype == "auto":
        dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    vocabulary = config_of(shape).vocab_size
    draw = random.Random(seed)
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_random_model(
            str(folder / "model"), shape, getattr(torch, dtype), "cuda" if torch.cuda.is_available() else "cpu"
        )
        for kind in kinds:
            rows: list[dict] = []
            while len(rows) < batch * (steps + 1):
                if kind == "turn":
                    rows += turn_pairs(draw, prompt, tokens, vocabulary)
                else:
                    rejected = 2 if kind == "tasks" else 1
                    rows += trajectory_pairs(draw, task_prompt, tokens, reply, vocabulary, rejected)
            for number, one in enumerate(rows):
                one["id"] = str(number)
            job = {
                "model": str(folder / "model"), "folder": str(folder / "out"), "pairs": rows, "batch": batch,
                "dtype": dtype, "learning_rate": 1e-5, "beta": 0.1, "threads": threads,
                "gradient_checkpointing": gradient_checkpointing,
            }  # fmt: skip
            ours = measured(sys.executable, "sweet_dpo.py", job, folder)
            print(f"{kind}: sweet_rl: {figures(ours)}", flush=True)
            job["pairs"] = [rows[i] for i in ours["order"]]
            theirs = []
            for micro in peer_micro:
                theirs.append(measured(peer_python, "trl_dpo.py", job | {"micro": micro}, folder))
                print(f"{kind}: trl, {micro} pairs at once: {figures(theirs[-1])}", flush=True)
                if kind == "turn":
                    gap = max(abs(a - b) for a, b in zip(ours["losses"], theirs[-1]["losses"], strict=True))
                    print(f"{kind}: largest difference between the losses of {len(ours['losses'])} steps: {gap:.1e}")
            best = max(theirs, key=lambda result: result["pairs_per_second"])
            speed, cpu, memory = (
                ours[name] / best[name] for name in ("pairs_per_second", "pairs_per_cpu_second", "peak_bytes")
            )
            ratios.append(
                f"{kind}: {speed:.2f} times the pairs/s of TRL's fastest ({cpu:.2f} times by processor time), "
                f"{memory:.2f} times its peak memory"
                + (f"; wanted {TARGETS[kind]} and 0.6" if kind in TARGETS else "")
            )
    print("\n".join(ratios))


def figures(result: dict) -> str:
    """Speed and memory as text."""
    tokens = f", texts of {result['tokens'][0]} + {result['tokens'][1]} tokens" if "tokens" in result else ""
    speeds = f"{result['pairs_per_second']:.3f} pairs/s, {result['pairs_per_cpu_second']:.3f} a processor second"
    return f"{speeds}, peak {result['peak_bytes'] / 1e9:.2f} GB{tokens}"


if __name__ == "__main__":
    run(main)
