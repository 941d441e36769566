"""Trains a value head on the mean hidden state: the paper's ablation of the critic, and its value function.

    python scripts/train_value.py --pretrain meta-llama/Llama-3.1-8B-Instruct --dataset trajectory_pairs.jsonl \\
        --save_path value_critic
    python scripts/train_value.py --objective classification --pretrain ... --dataset graded.jsonl --save_path value

The frontend critic of the paper, a vision-language model that sees a picture of the reference page:

    python scripts/train_value.py --reference_picture --pretrain Qwen/Qwen2-VL-7B-Instruct --dataset graded.jsonl \\
        --save_path value_critic

rank_best_of_n.py --critic_type value ranks with it. Several GPUs and killed runs as with train_dpo.py.
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.cli import run

DEEPSPEED = Path(__file__).resolve().parents[1] / "configs" / "deepspeed"


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    objective: str = "preference",
    unit: str = "turn",
    beta: float = 1.0,
    no_prompt: bool = False,
    reference_picture: bool = False,
    min_gap: float = 0.1,
    max_pixels: int | None = None,
    pages_path: str | None = None,
    browser: str | None = None,
    page_width: int = 1280,
    page_height: int = 720,
    page_timeout: float = 15.0,
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
    """Train a model with a value head.

    Args:
        pretrain: model to start from; directory or hub name
        dataset: JSONL of trajectory pairs (preference) or of graded trajectories (classification)
        save_path: directory of the trained model
        objective: preference (Bradley-Terry on pairs) or classification (cross-entropy of the dialogue's success)
        unit: turn (every turn of the agent has a value; a dialogue's is their sum) or trajectory (one value, at
            the dialogue's end)
        beta: scale of the values in the preference loss
        no_prompt: for classification: leave the reference solution out (pairs hold it or do not)
        reference_picture: the frontend critic: a vision-language model that sees a picture of the reference page;
            the dataset is then graded frontend trajectories (evaluate_html.py)
        min_gap: with --reference_picture: siblings whose rewards are at least so far apart make a pair
        max_pixels: with --reference_picture: larger pictures are shrunk to it; default: as the model says
        pages_path: folder in which the pictures are kept; default: DATASET.pages
        browser: chromium or firefox; default the first one found
        page_width: of the window in which pages are drawn, in pixels
        page_height: of that window; a longer page makes a longer picture
        page_timeout: seconds that drawing a page may take
        response_template: markup that opens the agent's turns, for rows whose texts are plain strings
        max_len: the most tokens of a text; no text is ever cut
        too_long: what becomes of an example with a longer text: drop (left out) or oldest_turns (its dialogue loses
            its oldest turns; the task and the last turn stay). Counted and reported either way
        eval_fraction: share of the tasks, with all their examples, held out and evaluated at every checkpoint
        micro_train_batch_size: examples at once in one process; default: its whole share of the batch
        pairs_together: at most so many examples of one prompt in a batch
        zero_stage: train with DeepSpeed ZeRO 0-3; default: plain torch
        lora_rank: train a LoRA adapter of this rank; saved by itself in adapter/ and, merged, as a whole model
        lora_alpha: the adapter's scale times its rank; default: twice the rank
        save_steps: optimiser steps between checkpoints
        keep: last (the weights at the end) or best (those of the checkpoint with the lowest evaluation loss)
        report_to: none, tensorboard, wandb, or several separated by commas
    """
    from sweet_rl.training.commands import deepspeed_config, train_picture_value, train_value
    from sweet_rl.training.examples import DataSettings
    from sweet_rl.training.settings import LoopSettings
    from sweet_rl.training.value import ValueObjective

    how = ValueObjective(objective, unit, beta)
    loop = LoopSettings(
        learning_rate, max_epochs, train_batch_size, micro_train_batch_size, bf16, gradient_checkpointing,
        deepspeed_config(DEEPSPEED, zero_stage), lr_scheduler, warmup_ratio, weight_decay, max_norm, seed,
        save_steps, logging_steps, report_to, pairs_together, lora_rank, lora_alpha, keep,
    )  # fmt: skip
    data = DataSettings(response_template, max_len, too_long, max_samples, eval_fraction)
    if reference_picture:
        from sweet_rl.training.vision_value import ReferencePages

        folder = Path(pages_path or f"{dataset}.pages") / f"{page_width}x{page_height}"
        pages = ReferencePages(folder, min_gap, max_pixels, browser, page_width, page_height, page_timeout)
        train_picture_value(pretrain, dataset, save_path, how, loop, data, pages, overwrite)
    else:
        train_value(pretrain, dataset, save_path, how, loop, data, hint=not no_prompt, overwrite=overwrite)


if __name__ == "__main__":
    run(main)
