"""TRL's GRPO with the credit of turns, and with the reward alone: the same rollouts and steps, three seeds.

    pip install -e '.[train]' trl==1.16.0
    OMP_NUM_THREADS=1 python -m lab.trl_grpo.compare

The tiny agent of the quick world learns by itself: the scripted human replies, and the credit is the PMI of the
untrained agent. Every step plays `--dialogues` dialogues, `--generations` for each task, and takes one step of the
optimiser. Success before and after is that of the scripts on test tasks. Stopped, the same command continues.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from datasets import Dataset
from transformers import set_seed
from trl import GRPOConfig, GRPOTrainer

from lab.trl_grpo.trainer import TrlRollouts, TurnCreditTrainer, reward
from sweet_rl.models.weights import model_path
from sweet_rl.runs.cli import run

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = {"grpo": GRPOTrainer, "turn_credit": TurnCreditTrainer}
NAMES = {"grpo": "GRPO", "turn_credit": "GRPO with turn credit"}


@dataclass(frozen=True)
class Sizes:
    """How much is trained and tested.

    Attributes:
        output_path: Folder of all files.
        seeds: Number of seeds of each method.
        steps: Number of optimiser steps.
        dialogues: Number of dialogues of one step.
        generations: Number of dialogues about one task in a step.
        learning_rate: Learning rate, constant.
        num_train: Number of training tasks.
        num_test: Number of test tasks.
        normalize: How the log-ratios of a turn are added up: none (their sum) or turn (their mean).
    """

    output_path: str = "runs/trl_grpo"
    seeds: int = 3
    steps: int = 12
    dialogues: int = 64
    generations: int = 8
    learning_rate: float = 5e-4
    num_train: int = 96
    num_test: int = 200
    normalize: str = "none"


def main(sizes: Sizes) -> None:
    """Train, evaluate and compare."""
    folder = Path(sizes.output_path).resolve()
    script("make_mini_tasks", num_train=sizes.num_train, num_test=sizes.num_test, output_dir=folder / "tasks")
    runs = {"zero-shot": [evaluate(folder, "zero_shot", "mini", seed) for seed in range(sizes.seeds)]}
    for seed in range(sizes.seeds):
        for method, name in NAMES.items():
            key = f"{method}-{seed}"
            if not (folder / key / "config.json").exists():
                train(sizes, folder, method, seed)
            runs.setdefault(name, []).append(evaluate(folder, key, str(folder / key), seed))
    script(
        "compare_runs", runs=",".join(f"{name}={'+'.join(files)}" for name, files in runs.items()),
        chains="GRPO with turn credit>GRPO>zero-shot", markdown_path=folder / "trl_grpo.md",
        output_path=folder / "trl_grpo.json", overwrite=True,
    )  # fmt: skip


def train(sizes: Sizes, folder: Path, method: str, seed: int) -> None:
    """Train the packaged agent by one method, and save it as `folder`/`method`-`seed`."""
    torch.set_num_threads(1)
    set_seed(seed)
    rollouts = TrlRollouts(
        {
            "input_path": str(folder / "tasks/train.jsonl"),
            "agent_prompt_path": "mini_agent.txt",
            "max_turns": 7,
            "seed": seed,
        },
        critic={"critic_type": "pmi", "model_id": "mini", "critic_settings": {"normalize": sizes.normalize}},
    )
    args = GRPOConfig(
        str(folder / f"{method}-{seed}"), per_device_train_batch_size=sizes.dialogues, seed=seed,
        num_generations=sizes.generations, max_completion_length=100, max_steps=sizes.steps,
        learning_rate=sizes.learning_rate, lr_scheduler_type="constant", use_cpu=True, bf16=False,
        gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
    )  # fmt: skip
    rows = Dataset.from_list(rollouts.rows())
    trainer = TRAINERS[method](model_path("mini"), reward, args, train_dataset=rows, rollout_func=rollouts)
    trainer.train()
    trainer.save_state()  # with the reward of every step
    trainer.save_model()


def evaluate(folder: Path, key: str, agent: str, seed: int) -> str:
    """Play and grade the test tasks. Returns the graded file."""
    played, graded = folder / f"{key}.{seed}.test.jsonl", folder / f"{key}.{seed}.graded.jsonl"
    script(
        "simulate_interactions", config=ROOT / "configs/mini/evaluation.yaml", agent_model=agent, seed=seed,
        input_path=folder / "tasks/test.jsonl", output_path=played,
    )  # fmt: skip
    script("evaluate_code", input_path=played, output_path=graded)
    return str(graded)


def script(name: str, **flags: object) -> None:
    """Run a script of the package, which does nothing where its output is complete."""
    words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    subprocess.run([sys.executable, ROOT / f"scripts/{name}.py", *words], check=True)


if __name__ == "__main__":
    run(main)
