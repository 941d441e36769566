"""Trains on preference pairs: the critic and multi-turn DPO on trajectory pairs, the actor on turn pairs.

    python scripts/train_dpo.py --pretrain meta-llama/Llama-3.1-8B-Instruct --dataset trajectory_pairs.jsonl \\
        --save_path critic --normalize turn --nll_loss_coef 0.01
    python scripts/train_dpo.py --config configs/paper/backend/critic.yaml --dataset ... --save_path ...

Several GPUs: torchrun --nproc_per_node 8 scripts/train_dpo.py ... --zero_stage 3. A killed run is continued
by the same command.
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.cli import run

DEEPSPEED = Path(__file__).resolve().parents[1] / "configs" / "deepspeed"


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    ref_pretrain: str | None = None,
    beta: float = 0.1,
    normalize: str = "auto",
    mean_log_prob: bool = False,
    nll_loss_coef: float = 0.0,
    response_template: str | None = None,
    max_len: int | None = None,
    too_long: str = "drop",
    max_samples: int | None = None,
    eval_fraction: float = 0.0,
    learning_rate: float = 2e-7,
    max_epochs: int = 1,
    train_batch_size: int = 8,
    micro_train_batch_size: int | None = None,
    pairs_together: int = 4,
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
    """Train a model on preference pairs with DPO.

    Args:
        pretrain: model to start from; directory or hub name
        dataset: JSONL of pairs: chosen, rejected
        save_path: directory of the trained model
        ref_pretrain: reference model; default: --pretrain
        normalize: turn (sum over turns of per-turn means, the paper's critic), trajectory (one mean, the
            released critic), none (summed log-probs, plain DPO) or auto: trajectory with --mean_log_prob,
            else none
        mean_log_prob: the released name of --normalize trajectory
        nll_loss_coef: weight of the chosen text's mean NLL on trained tokens (paper: 0.01)
        response_template: markup that opens the agent's turns, for rows whose texts are plain strings
        max_len: the most tokens of a text; no text is ever cut
        too_long: what becomes of an example with a longer text: drop (left out) or oldest_turns (its dialogue loses
            its oldest turns; the task and the last turn stay). Counted and reported either way
        eval_fraction: share of the tasks, with all their examples, held out and evaluated at every checkpoint
        micro_train_batch_size: pairs at once in one process; default: its whole share of the batch
        pairs_together: at most so many pairs of one prompt in a batch
        zero_stage: train with DeepSpeed ZeRO 0-3; default: plain torch
        lora_rank: train a LoRA adapter of this rank; saved by itself in adapter/ and, merged, as a whole model
        lora_alpha: the adapter's scale times its rank; default: twice the rank
        save_steps: optimiser steps between checkpoints
        keep: last (the weights at the end) or best (those of the checkpoint with the lowest evaluation loss)
        report_to: none, tensorboard, wandb, or several separated by commas
    """
    from sweet_rl.training.commands import deepspeed_config, train_preferences
    from sweet_rl.training.dpo import Preference, resolve_normalize
    from sweet_rl.training.examples import DataSettings
    from sweet_rl.training.settings import LoopSettings

    train_preferences(
        pretrain,
        dataset,
        save_path,
        Preference(beta, nll_loss_coef, resolve_normalize(normalize, mean_log_prob)),
        LoopSettings(
            learning_rate, max_epochs, train_batch_size, micro_train_batch_size, bf16, gradient_checkpointing,
            deepspeed_config(DEEPSPEED, zero_stage), lr_scheduler, warmup_ratio, weight_decay, max_norm, seed,
            save_steps, logging_steps, report_to, pairs_together, lora_rank, lora_alpha, keep,
        ),
        DataSettings(response_template, max_len, too_long, max_samples, eval_fraction),
        ref_pretrain=ref_pretrain,
        overwrite=overwrite,
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
