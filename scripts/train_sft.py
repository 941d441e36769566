"""Rejection fine-tuning: imitates the dialogues that succeeded, the agent's tokens only.

    python scripts/train_sft.py --pretrain meta-llama/Llama-3.1-8B-Instruct --dataset graded.jsonl --save_path rft
    python scripts/train_sft.py --config configs/paper/backend/rejection_fine_tuning.yaml --dataset ... --save_path ...

A killed run is continued by the same command.
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.cli import run

DEEPSPEED = Path(__file__).resolve().parents[1] / "configs" / "deepspeed"


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    min_reward: float = 1.0,
    response_template: str | None = None,
    max_len: int | None = None,
    too_long: str = "drop",
    max_samples: int | None = None,
    eval_fraction: float = 0.0,
    learning_rate: float = 2e-7,
    max_epochs: int = 1,
    train_batch_size: int = 32,
    micro_train_batch_size: int | None = None,
    lr_scheduler: str = "cosine",
    warmup_ratio: float = 0.03,
    weight_decay: float = 0.0,
    max_norm: float = 1.0,
    bf16: bool = False,
    gradient_checkpointing: bool = False,
    zero_stage: int | None = None,
    lora_rank: int | None = None,
    lora_alpha: float | None = None,
    save_steps: int = 100,
    keep: str = "last",
    logging_steps: int = 10,
    report_to: str = "none",
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Fine-tune a model on trajectories whose reward is at least --min_reward.

    Args:
        pretrain: model to start from; directory or hub name
        dataset: JSONL of graded trajectories
        save_path: directory of the trained model
        response_template: markup that opens the agent's turns, for the released file, whose rows carry their text
        max_len: the most tokens of a text; no text is ever cut
        too_long: what becomes of an example with a longer text: drop (left out) or oldest_turns (its dialogue loses
            its oldest turns; the task and the last turn stay). Counted and reported either way
        eval_fraction: share of the tasks, with all their examples, held out and evaluated at every checkpoint
        micro_train_batch_size: dialogues at once in one process; default: its whole share of the batch
        zero_stage: train with DeepSpeed ZeRO 0-3; default: plain torch
        lora_rank: train a LoRA adapter of this rank; saved by itself in adapter/ and, merged, as a whole model
        lora_alpha: the adapter's scale times its rank; default: twice the rank
        save_steps: optimiser steps between checkpoints
        keep: last (the weights at the end) or best (those of the checkpoint with the lowest evaluation loss)
        report_to: none, tensorboard, wandb, or several separated by commas
    """
    from sweet_rl.training.commands import deepspeed_config, train_imitation
    from sweet_rl.training.examples import DataSettings
    from sweet_rl.training.settings import LoopSettings

    train_imitation(
        pretrain,
        dataset,
        save_path,
        LoopSettings(
            learning_rate, max_epochs, train_batch_size, micro_train_batch_size, bf16, gradient_checkpointing,
            deepspeed_config(DEEPSPEED, zero_stage), lr_scheduler, warmup_ratio, weight_decay, max_norm, seed,
            save_steps, logging_steps, report_to, lora_rank=lora_rank, lora_alpha=lora_alpha, keep=keep,
        ),
        DataSettings(response_template, max_len, too_long, max_samples, eval_fraction),
        min_reward=min_reward,
        overwrite=overwrite,
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
