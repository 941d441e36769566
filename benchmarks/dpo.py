"""Preference pairs a second: this package against TRL's DPOTrainer, on data of SWEET-RL's shape.

    python -m venv peer && peer/bin/pip install torch==2.13.0 && peer/bin/pip install trl==1.16.0
    python benchmarks/dpo.py --peer_python peer/bin/python

Three kinds of data: `turn`, four pairs of one turn (a prompt of 1,000 tokens, eight completions of 60); `tasks`,
trajectory pairs of 5 turns as the paper's data have them, three dialogues of a task of which one succeeded, hence two
pairs that share it; `lone`, trajectory pairs that share nothing but their own prompt. Same random model, tokens, dtype,
optimiser and batch; both sides have their reference log-probs precomputed, and no text needs padding. TRL is tried
with each of `--peer_micro` pairs at once. Then both programs are there and take turns of `--steps` optimiser steps, the
first turn left out, TRL with the fastest of its settings; each ratio is given as the median and the range over
`--repeats` turns. Beside the time by the clock stands that of the processors, which other work on the machine disturbs
less. On turn pairs the two must also agree in their losses. (TRL has no masks for several turns: on trajectory pairs it
trains on the replies too, at the same cost.) The last lines are the ratios.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
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


class Side:
    """One side: a program of its own, which takes turns with the other one."""

    def __init__(self, python: str, program: str, job: dict, folder: Path):
        (folder / "job.json").write_text(json.dumps(job))
        environment = {
            **os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(HERE.parent),
            "OMP_NUM_THREADS": str(job["threads"]), "WANDB_DISABLED": "true",
        }  # fmt: skip
        self.job, self.result, self.errors = job, folder / f"{program}.json", folder / f"{program}.log"
        self.words = [python, str(HERE / "peers" / program), str(folder / "job.json"), str(self.result)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                self.words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        began = time.perf_counter()
        self.wait()
        self.first = time.perf_counter() - began

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self) -> None:
        """Until its turn is over."""
        if not any(line == "over\n" for line in self.process.stdout):
            self.process.wait()
            raise UserError(f"{' '.join(self.words)} failed:\n{self.errors.read_text()[-2000:]}")

    def go(self) -> None:
        """Give it the word for its next turn."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def ended(self) -> dict:
        """What it says of the job after its last turn, with the pairs per second of each turn but the first."""
        self.process.communicate("go\n")
        if self.process.returncode:
            raise UserError(f"{' '.join(self.words)} failed:\n{self.errors.read_text()[-2000:]}")
        result = json.loads(self.result.read_text())
        pairs = self.job["batch"] * self.job["steps"]
        wall, cpu = ([pairs / turn[i] for turn in result["turns"][1:]] for i in (0, 1))
        return result | {"pairs_per_second": wall, "pairs_per_cpu_second": cpu, "first": self.first}


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
    """Measure both sides of one kind of data, print the figures of each, and return the line with the ratios."""
    job = job | {"order": str(folder / "order.json")}
    with Side(sys.executable, "sweet_dpo.py", job, folder) as ours:
        order = json.loads((folder / "order.json").read_text())
        peer = job | {"pairs": [job["pairs"][i] for i in order], "folder": f"{job['folder']}_peer"}
        fastest = peer_micro[0]
        if len(peer_micro) > 1:
            few, speeds = peer | {"pairs": peer["pairs"][: 2 * job["batch"] * job["steps"]]}, {}
            for micro in peer_micro:
                with Side(peer_python, "trl_dpo.py", few | {"micro": micro}, folder) as tried:
                    tried.go()
                    tried.wait()
                    speeds[micro] = tried.ended()["pairs_per_second"][0]
            fastest = max(speeds, key=lambda micro: speeds[micro])
            print(f"{kind}: trl, pairs/s by the pairs at once: {speeds}", flush=True)
        with Side(peer_python, "trl_dpo.py", peer | {"micro": fastest}, folder) as theirs:
            for _ in range(repeats):
                for side in (ours, theirs):
                    side.go()
                    side.wait()
            mine, other = ours.ended(), theirs.ended()
    print(f"{kind}: sweet_rl: {figures(mine)}")
    print(f"{kind}: trl, {fastest} pairs at once: {figures(other)}", flush=True)
    if kind == "turn":
        gap = max(abs(a - b) for a, b in zip(mine["losses"], other["losses"], strict=True))
        print(f"{kind}: largest difference between the losses of {len(mine['losses'])} steps: {gap:.1e}")
    speed, cpu = (spread(ratios(mine[name], other[name])) for name in ("pairs_per_second", "pairs_per_cpu_second"))
    memory = f"{mine['peak_bytes'] / other['peak_bytes']:.2f}"
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
        steps: optimiser steps of a turn
        repeats: turns of each side, after one that is not timed
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
                "pairs": rows_of(kind, batch * steps * (repeats + 1), config_of(shape).vocab_size, lengths, seed),
                "learning_rate": 1e-5, "beta": 0.1, "threads": threads, "steps": steps,
                "gradient_checkpointing": gradient_checkpointing,
            }  # fmt: skip
            lines.append(compare(kind, job, peer_python, peer_micro, repeats, folder))
    print("\n".join(lines))


def figures(result: dict) -> str:
    """Speed, memory, and the seconds to the end of the first turn (start of the program, compilation) as text."""
    tokens = f", texts of {result['tokens'][0]} + {result['tokens'][1]} tokens" if "tokens" in result else ""
    speeds, cpu = (spread(result[name], 3) for name in ("pairs_per_second", "pairs_per_cpu_second"))
    peak = f"peak {result['peak_bytes'] / 1e9:.2f} GB"
    return f"{speeds} pairs/s, {cpu} a processor second, {peak}{tokens}; first turn after {result['first']:.0f} s"


if __name__ == "__main__":
    run(main)
