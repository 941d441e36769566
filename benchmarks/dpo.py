"""Preference pairs a second, memory and losses: this package beside TRL's DPOTrainer on the same pairs.

    python -m venv peer && peer/bin/pip install torch==2.13.0 && peer/bin/pip install trl==1.16.0
    python benchmarks/dpo.py --peer_python peer/bin/python
    python benchmarks/dpo.py --peer_python peer/bin/python --input_path runs/mini/turn_pairs.jsonl

Two kinds of random data on a random model: `turn`, four pairs of one turn (a prompt of 1,000 tokens, eight completions
of 60); `tasks`, trajectory pairs of 5 turns as the paper's data have them, three dialogues of a task of which one
succeeded, hence two pairs that share it. Same tokens, dtype, optimiser and batch; both sides have their reference
log-probs precomputed. The two programs are started `--repeats` times in turn; a first step is not timed, and each
ratio is given as median and range. Beside the time by the clock stands that of the processors, which other work on the
machine disturbs less. On turn pairs the losses of all steps must agree. (TRL has no masks for several turns: on
trajectory pairs it trains on the replies too, at the same cost.)

With `--input_path` the pairs are turn pairs of the packaged agent `mini`, which TRL reads as `sweet-rl export` writes
them. The reference has noise on its weights, so that the loss is not log 2. Compared are the pairs whose sampled tokens
are those that the tokenizer makes of their text. As each step's loss depends on the gradients before it, equal losses
of several steps are equal gradients.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from random_model import config_of, save_random_model, word_of

from sweet_rl.integrations.export import export_file
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_weights, model_path
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, read_records
from sweet_rl.runs.step import StepSettings

HERE = Path(__file__).resolve().parent
NOISE = 0.1


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


def trajectory_pairs(draw: random.Random, lengths: Lengths, vocabulary: int) -> list[dict]:
    """The pairs of one task: one dialogue that succeeded over each of two others."""

    def dialogue() -> list[tuple[bool, str]]:
        parts = [(True, completion(draw, lengths.tokens, vocabulary))]
        for _ in range(4):
            parts.append((False, completion(draw, lengths.reply, vocabulary)))
            parts.append((True, completion(draw, lengths.tokens, vocabulary)))
        return parts

    text = completion(draw, lengths.task_prompt, vocabulary)
    chosen = dialogue()
    return [row(text, chosen, dialogue()) for _ in range(2)]


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


def random_job(kind: str, number: int, shape: str, dtype: str, lengths: Lengths, seed: int, folder: Path) -> dict:
    """A random model and at least `number` pairs of a kind, in whole turns or tasks."""
    vocabulary, draw, rows = config_of(shape).vocab_size, random.Random(seed), []
    save_random_model(str(folder / "model"), shape, getattr(torch, dtype), device())
    while len(rows) < number:
        if kind == "turn":
            rows += turn_pairs(draw, lengths.prompt, lengths.tokens, vocabulary)
        else:
            rows += trajectory_pairs(draw, lengths, vocabulary)
    ours = [{"chosen": one.pop("chosen_parts"), "rejected": one.pop("rejected_parts")} for one in rows]
    return {"model": str(folder / "model"), "reference": None, "ours": ours, "theirs": rows}


def exported_job(input_path: str, number: int, folder: Path) -> dict:
    """The packaged agent, a reference that differs from it, and turn pairs as they are and as TRL reads them."""
    policy = model_path("mini")
    chat = ChatFormat.from_pretrained(policy)
    read = read_records(input_path, PreferencePair, number)
    same = [
        pair
        for pair in read
        if all(chat.encode(text, pair.tokenizer) == chat.encode(text) for text in (pair.chosen, pair.rejected))
    ]
    print(f"{len(same)} of {len(read)} pairs have the tokens that the tokenizer makes of their text")
    torch.manual_seed(0)
    noisy = load_weights(policy, torch.float32)
    for weight in noisy.parameters():
        weight.data += NOISE * torch.randn_like(weight)
    noisy.save_pretrained(folder / "reference")
    ours = [pair.to_dict() for pair in same]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ours))
    export_file(str(folder / "pairs.jsonl"), str(folder / "trl.jsonl"), StepSettings(), "mini")
    theirs = [json.loads(line) for line in (folder / "trl.jsonl").read_text().splitlines()]
    return {"model": policy, "reference": str(folder / "reference"), "ours": ours, "theirs": theirs}


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def run_side(python: str, program: str, job: dict, folder: Path) -> dict:
    """What a program says of the job: seconds of each step by clock and processors, losses, peak memory."""
    environment = {
        **os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "WANDB_DISABLED": "true",
        "OMP_NUM_THREADS": str(job["threads"]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")])),
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job))
    words = [python, str(HERE / "peers" / program), str(folder / "job.json"), str(folder / "result.json")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    result = json.loads((folder / "result.json").read_text())
    timed = result["seconds"][1:]
    for number, name in enumerate(("pairs/s", "pairs a processor second")):
        result[name] = job["batch"] * len(timed) / sum(step[number] for step in timed)
    return result


def compare(name: str, job: dict, peer_python: str, repeats: int, folder: Path) -> float:
    """Run both sides in turn and print their figures and ratios; returns the largest difference of losses."""
    job = job | {"folder": str(folder / "out"), "order": str(folder / "order.json")}
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(run_side(sys.executable, "sweet_dpo.py", job, folder))
        order = json.loads((folder / "order.json").read_text())
        peer = job | {"theirs": [job["theirs"][place] for place in order], "folder": str(folder / "peer")}
        theirs.append(run_side(peer_python, "trl_dpo.py", peer, folder))
    for side, found in (("sweet_rl", ours), ("trl", theirs)):
        speed, cpu = (spread([one[key] for one in found]) for key in ("pairs/s", "pairs a processor second"))
        print(f"{name}: {side}: {speed} pairs/s, {cpu} a processor second, peak {peak(found) / 1e9:.2f} GB")
    gap = max(abs(a - b) for a, b in zip(ours[0]["losses"], theirs[0]["losses"], strict=True))
    print(f"{name}: largest difference between the losses of {len(ours[0]['losses'])} steps: {gap:.1e}")
    speed, cpu = (
        spread([one[key] / other[key] for one, other in zip(ours, theirs, strict=True)])
        for key in ("pairs/s", "pairs a processor second")
    )
    memory = f"{peak(ours) / peak(theirs):.2f} times its peak memory"
    print(f"{name}: {speed} times the pairs/s of TRL ({cpu} times by processor time), {memory}", flush=True)
    return gap


def peak(found: Sequence[dict]) -> float:
    return max(one["peak_bytes"] for one in found)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range as text: "4.10 (3.90 to 4.35)"."""
    middle, low, high = (f"{one:.{digits}f}" for one in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def main(
    peer_python: str,
    lengths: Lengths,
    input_path: str | None = None,
    shape: str = "25m",
    dtype: str = "auto",
    kinds: list[str] = ("turn", "tasks"),
    steps: int = 3,
    repeats: int = 5,
    batch: int = 4,
    peer_micro: int = 4,
    gradient_checkpointing: bool = False,
    threads: int = 2,
    seed: int = 0,
    tolerance: float = 1e-4,
) -> None:
    """Measure both sides and print the ratios. Exits with 1 if losses differ that should not.

    Args:
        peer_python: interpreter of an environment with trl
        input_path: turn pairs of the packaged agent, in place of random data
        shape: of the random Llama: 25m, 135m, 1b, 3b or 8b
        dtype: of weights and optimiser: float32, bfloat16, or auto (bfloat16 on a GPU)
        kinds: turn, tasks
        steps: timed optimiser steps
        repeats: how often each side is started
        batch: pairs an optimiser step
        peer_micro: pairs that TRL takes at once
        tolerance: largest difference of the losses in float32
    """
    if dtype == "auto":
        dtype = "bfloat16" if device() == "cuda" and input_path is None else "float32"
    common = {
        "batch": batch, "micro": peer_micro, "dtype": dtype, "learning_rate": 1e-5, "beta": 0.1, "threads": threads,
        "gradient_checkpointing": gradient_checkpointing,
    }  # fmt: skip
    apart = 0.0
    for kind in ["turn"] if input_path else kinds:
        with tempfile.TemporaryDirectory() as name:
            folder, number = Path(name), batch * (steps + 1)
            if input_path:
                job = exported_job(input_path, number, folder)
            else:
                job = random_job(kind, number, shape, dtype, lengths, seed, folder)
            gap = compare("exported" if input_path else kind, common | job, peer_python, repeats, folder)
            if kind == "turn" and dtype == "float32":
                apart = max(apart, gap)
    if apart > tolerance:
        raise UserError(f"the losses differ by {apart:.1e}, more than {tolerance:g}.")


if __name__ == "__main__":
    run(main)
