"""The trainings from files to a saved model: read, encode, split, reference, train."""

from __future__ import annotations

import functools
from dataclasses import asdict
from pathlib import Path

import torch
from transformers import TrainingArguments

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.models.load import model_input, model_path
from sweet_rl.models.loadable import check_loadable
from sweet_rl.records import PreferencePair, Trajectory, read_records
from sweet_rl.runs.manifest import hash_input
from sweet_rl.scoring.value_head import attach_value_head
from sweet_rl.scoring.vision import VisionFormat, load_vision_weights
from sweet_rl.scoring.weights import load_frozen, load_weights
from sweet_rl.training.adapters import with_adapter
from sweet_rl.training.dpo import Preference, PreferenceTrainer
from sweet_rl.training.examples import DataSettings, PreferenceExamples, encode_pairs, encode_trajectories
from sweet_rl.training.loop import train_once
from sweet_rl.training.reference import reference_logps
from sweet_rl.training.settings import CHECKPOINTS, LoopSettings, training_arguments
from sweet_rl.training.sft import ImitationTrainer, successful
from sweet_rl.training.split import split_by_task
from sweet_rl.training.value import (
    ValueClassificationTrainer,
    ValueObjective,
    ValuePreferenceTrainer,
)
from sweet_rl.training.vision_value import PictureValueTrainer, ReferencePages, encode_picture_pairs


def deepspeed_config(folder: Path, zero_stage: int | None) -> str | None:
    """The configuration of a ZeRO stage, None without one. Raises UserError for a stage that does not
    exist.
    """
    if zero_stage is None:
        return None
    if zero_stage not in (0, 1, 2, 3):
        raise UserError(f"--zero_stage is {zero_stage}; it must be 0, 1, 2 or 3.")
    return str(folder / f"zero{zero_stage}.json")


def train_preferences(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: Preference,
    loop: LoopSettings,
    data: DataSettings,
    ref_pretrain: str | None = None,
    overwrite: bool = False,
) -> dict | None:
    """DPO on the pairs of `dataset`, saved to `save_path`. Returns the summary, None if it was complete
    before.

    Raises UserError for input, settings or an output that cannot be used; then nothing is overwritten.
    """
    weights, frozen = model_path(pretrain), model_path(ref_pretrain or pretrain)
    args = training_arguments(loop, save_path, evaluate=data.eval_fraction > 0)
    chat = ChatFormat.from_pretrained(weights)
    examples = encode_pairs(read_records(dataset, PreferencePair, data.max_samples), chat, data, dataset)
    split = split_by_task(examples.tasks, data.eval_fraction, loop.seed, dataset)
    for path in {weights, frozen}:
        check_loadable(path)
    settings = {
        "pretrain": pretrain, "ref_pretrain": ref_pretrain or pretrain, "dataset": dataset, **asdict(how),
        **asdict(data), **loop.that_matter(),
    }  # fmt: skip

    def make() -> PreferenceTrainer:
        # One load for both, where the reference is the trained model without its adapter.
        once = functools.cache(lambda: load_weights(weights, loop.dtype))
        same = loop.lora_rank and frozen == weights and not loop.deepspeed
        load = (lambda: once().to(args.device).eval()) if same else lambda: _load_reference(frozen, loop, args)
        key = f"{_content(frozen)} {loop.dtype} bf16={loop.bf16}"
        reference = _reference(examples, key, load, save_path, loop, args)
        model = _trainable(once(), loop)
        return PreferenceTrainer(model, args, examples, reference, how, chat, *split, loop.pairs_together)

    counts = {"pairs": len(examples), "texts": len(examples.texts), "held_out": len(split[1])}
    inputs = [dataset, model_input(pretrain), model_input(ref_pretrain or pretrain)]
    return train_once(save_path, settings, inputs, overwrite, loop, args, weights, make, counts, examples.counts)


def train_value(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: ValueObjective,
    loop: LoopSettings,
    data: DataSettings,
    hint: bool = True,
    overwrite: bool = False,
) -> dict | None:
    """A model with a value head, trained on pairs ("preference"; they hold the reference solution or do not) or on
    graded trajectories ("classification"; `hint` puts the reference solution in front). Otherwise as
    `train_preferences`."""
    weights = model_path(pretrain)
    args = training_arguments(loop, save_path, evaluate=data.eval_fraction > 0)
    chat = ChatFormat.from_pretrained(weights)
    if how.objective == "preference":
        examples = encode_pairs(read_records(dataset, PreferencePair, data.max_samples), chat, data, dataset)
        counts, trainer = {"pairs": len(examples), "texts": len(examples.texts)}, ValuePreferenceTrainer
    else:
        graded = successful(read_records(dataset, Trajectory, data.max_samples), 0.0, dataset)
        examples = encode_trajectories(graded, chat, data, dataset, hint)
        counts, trainer = {"trajectories": len(examples)}, ValueClassificationTrainer
        counts["successes"] = int(sum(examples.labels))
    split = split_by_task(examples.tasks, data.eval_fraction, loop.seed, dataset)
    check_loadable(weights)
    settings = {
        "pretrain": pretrain, "dataset": dataset, **asdict(how), "hint": hint, **asdict(data), **loop.that_matter(),
    }  # fmt: skip

    def make() -> ValuePreferenceTrainer | ValueClassificationTrainer:
        model = _trainable(attach_value_head(load_weights(weights, loop.dtype), loop.seed), loop)
        return trainer(model, args, examples, how, chat, *split, loop.pairs_together)

    counts["held_out"] = len(split[1])
    inputs = [dataset, model_input(pretrain)]
    return train_once(save_path, settings, inputs, overwrite, loop, args, weights, make, counts, examples.counts)


def train_picture_value(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: ValueObjective,
    loop: LoopSettings,
    data: DataSettings,
    pages: ReferencePages,
    overwrite: bool = False,
) -> dict | None:
    """A vision-language model with a value head, trained on pairs of siblings of graded frontend trajectories, each
    behind the picture of its reference page. Otherwise as `train_preferences`."""
    if how.objective != "preference" or data.too_long != "drop" or data.response_template:
        raise UserError(
            "--reference_picture trains on preferences and lays the dialogues out anew: leave out --objective, "
            "--too_long and --response_template."
        )
    args = training_arguments(loop, save_path, evaluate=data.eval_fraction > 0)
    form = VisionFormat.from_pretrained(pretrain, pages.max_pixels)
    graded = successful(read_records(dataset, Trajectory, data.max_samples), 0.0, dataset)
    with args.main_process_first(desc="drawing the reference pages"):
        pages.draw(t.task.ground_truth for t in graded)
    examples = encode_picture_pairs(graded, form, pages.folder, pages.min_gap, data.max_len, dataset)
    split = split_by_task(examples.tasks, data.eval_fraction, loop.seed, dataset)
    settings = {
        "pretrain": pretrain, "dataset": dataset, **asdict(how), **pages.that_matter(), **asdict(data),
        **loop.that_matter(),
    }  # fmt: skip

    def make() -> PictureValueTrainer:
        model = _trainable(attach_value_head(load_vision_weights(pretrain, loop.dtype), loop.seed), loop)
        if args.process_index == 0:
            form.save(save_path)
        return PictureValueTrainer(model, args, examples, how, form, *split, loop.pairs_together)

    counts = {"pairs": len(examples), "texts": len(examples.texts), "held_out": len(split[1])}
    inputs = [dataset, model_input(pretrain)]
    return train_once(save_path, settings, inputs, overwrite, loop, args, pretrain, make, counts, examples.counts)


def train_imitation(
    pretrain: str,
    dataset: str,
    save_path: str,
    loop: LoopSettings,
    data: DataSettings,
    min_reward: float = 1.0,
    overwrite: bool = False,
) -> dict | None:
    """Fine-tuning on the successful trajectories of `dataset`; otherwise as `train_preferences`."""
    weights = model_path(pretrain)
    args = training_arguments(loop, save_path, evaluate=data.eval_fraction > 0)
    kept = successful(read_records(dataset, Trajectory, data.max_samples), min_reward, dataset)
    chat = ChatFormat.from_pretrained(weights)
    examples = encode_trajectories(kept, chat, data, dataset)
    split = split_by_task(examples.tasks, data.eval_fraction, loop.seed, dataset)
    check_loadable(weights)
    settings = {
        "pretrain": pretrain, "dataset": dataset, "min_reward": min_reward, **asdict(data), **loop.that_matter(),
    }  # fmt: skip

    def make() -> ImitationTrainer:
        return ImitationTrainer(_trainable(load_weights(weights, loop.dtype), loop), args, examples, chat, *split)

    counts = {"trajectories": len(examples), "held_out": len(split[1])}
    inputs = [dataset, model_input(pretrain)]
    return train_once(save_path, settings, inputs, overwrite, loop, args, weights, make, counts, examples.counts)


def _trainable(model: torch.nn.Module, loop: LoopSettings) -> torch.nn.Module:
    model.train()
    return with_adapter(model, loop.lora_rank, loop.lora_alpha, loop.seed) if loop.lora_rank else model


def _reference(
    examples: PreferenceExamples, key: str, load, save_path: str, loop: LoopSettings, args: TrainingArguments
) -> list:
    """The reference log-probs of all texts, by all processes."""
    with torch.autocast(args.device.type, torch.bfloat16, enabled=loop.bf16 and not loop.deepspeed):
        return reference_logps(
            Path(save_path) / CHECKPOINTS, examples.texts, key, load, args.process_index, args.world_size,
            torch.distributed.barrier if args.world_size > 1 else lambda: None,
        )  # fmt: skip


def _load_reference(path: str, loop: LoopSettings, args: TrainingArguments) -> torch.nn.Module:
    """The frozen model, whole in every process: it is gone before the trained one is split up by ZeRO-3."""
    if not loop.deepspeed:
        return load_frozen(path, loop.dtype, args.device)
    from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

    unset_hf_deepspeed_config()
    try:
        return load_frozen(path, loop.dtype, args.device)
    finally:
        set_hf_deepspeed_config(args.hf_deepspeed_config)


def _content(path: str) -> str:
    return f"{path} {hash_input(path) if Path(path).exists() else ''}"
