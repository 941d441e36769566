"""A training from files to a saved model: read, encode, reference, train, save; continued where it
stopped.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import TrainingArguments

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.models.load import model_input, model_path
from sweet_rl.models.loadable import check_loadable
from sweet_rl.records import PreferencePair, Trajectory, read_records
from sweet_rl.runs import hash_input
from sweet_rl.training.dpo import Preference, PreferenceTrainer
from sweet_rl.training.examples import encode_graded, encode_pairs, encode_trajectories
from sweet_rl.training.loop import (
    CHECKPOINTS,
    LoopSettings,
    fit,
    is_complete,
    open_model_directory,
    training_arguments,
)
from sweet_rl.training.reference import reference_logps
from sweet_rl.training.sft import ImitationTrainer, successful
from sweet_rl.training.value import (
    ValueClassificationTrainer,
    ValueObjective,
    ValuePreferenceTrainer,
    attach_value_head,
)
from sweet_rl.training.weights import load_frozen, load_weights


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
    ref_pretrain: str | None = None,
    response_template: str | None = None,
    max_len: int | None = None,
    max_samples: int | None = None,
    overwrite: bool = False,
) -> dict | None:
    """DPO on the pairs of `dataset`, saved to `save_path`. Returns the summary, None if it was complete
    before.

    Raises UserError for input, settings or an output that cannot be used; then nothing is overwritten.
    """
    weights, frozen = model_path(pretrain), model_path(ref_pretrain or pretrain)
    args = training_arguments(loop, save_path)
    pairs = read_records(dataset, PreferencePair, limit=max_samples)
    chat = ChatFormat.from_pretrained(weights)
    examples = encode_pairs(pairs, chat, max_len, response_template, dataset)
    for path in {weights, frozen}:
        check_loadable(path)
    settings = {
        "pretrain": pretrain, "ref_pretrain": ref_pretrain or pretrain, "dataset": dataset, "beta": how.beta,
        "nll_loss_coef": how.nll_loss_coef, "normalize": how.normalize,
        "response_template": response_template, "max_len": max_len, "max_samples": max_samples, **loop.that_matter(),
    }  # fmt: skip
    inputs = [dataset, model_input(pretrain), model_input(ref_pretrain or pretrain)]
    run = open_model_directory(save_path, settings, inputs, overwrite, args)
    with run or contextlib.nullcontext():
        if is_complete(run, args):
            return _already_complete(save_path, args)
        with torch.autocast(args.device.type, torch.bfloat16, enabled=loop.bf16 and not loop.deepspeed):
            reference = reference_logps(
                Path(save_path) / CHECKPOINTS,
                examples.texts,
                f"{_content(frozen)} {_dtype(loop)} bf16={loop.bf16}",
                lambda: _load_reference(frozen, loop, args),
                args.process_index,
                args.world_size,
                torch.distributed.barrier if args.world_size > 1 else lambda: None,
            )
        model = load_weights(weights, _dtype(loop))
        trainer = PreferenceTrainer(model, args, examples, reference, how, chat, loop.pairs_together)
        summary = {"pairs": len(examples), "texts": len(examples.texts), "dropped": dict(examples.dropped)}
        return _report(fit(trainer, save_path, run, summary), examples.dropped, save_path, args)


def train_value(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: ValueObjective,
    loop: LoopSettings,
    hint: bool = True,
    response_template: str | None = None,
    max_len: int | None = None,
    max_samples: int | None = None,
    overwrite: bool = False,
) -> dict | None:
    """A model with a value head, trained on pairs ("preference"; they hold the reference solution or do not) or on
    graded trajectories ("classification"; `hint` puts the reference solution in front). Otherwise as
    `train_preferences`."""
    weights = model_path(pretrain)
    args = training_arguments(loop, save_path)
    kind = PreferencePair if how.objective == "preference" else Trajectory
    records = read_records(dataset, kind, limit=max_samples)
    chat = ChatFormat.from_pretrained(weights)
    if how.objective == "preference":
        examples = encode_pairs(records, chat, max_len, response_template, dataset)
        dropped, counts = examples.dropped, {"pairs": len(examples), "texts": len(examples.texts)}
    else:
        known = [t for t in records if t.reward is not None and t.ending != "failed"]
        texts, labels, dropped = encode_graded(known, chat, max_len, dataset, response_template, hint)
        counts = {"trajectories": len(texts), "successes": int(sum(labels))}
    check_loadable(weights)
    settings = {
        "pretrain": pretrain, "dataset": dataset, **asdict(how), "hint": hint,
        "response_template": response_template, "max_len": max_len, "max_samples": max_samples, **loop.that_matter(),
    }  # fmt: skip
    run = open_model_directory(save_path, settings, [dataset, model_input(pretrain)], overwrite, args)
    with run or contextlib.nullcontext():
        if is_complete(run, args):
            return _already_complete(save_path, args)
        model = attach_value_head(load_weights(weights, _dtype(loop)), loop.seed)
        if how.objective == "preference":
            trainer = ValuePreferenceTrainer(model, args, examples, how, chat, loop.pairs_together)
        else:
            trainer = ValueClassificationTrainer(model, args, texts, labels, how, chat, loop.pairs_together)
        summary = {**counts, "dropped": dict(dropped)}
        return _report(fit(trainer, save_path, run, summary), dropped, save_path, args)


def train_imitation(
    pretrain: str,
    dataset: str,
    save_path: str,
    loop: LoopSettings,
    min_reward: float = 1.0,
    response_template: str | None = None,
    max_len: int | None = None,
    max_samples: int | None = None,
    overwrite: bool = False,
) -> dict | None:
    """Fine-tuning on the successful trajectories of `dataset`; otherwise as `train_preferences`."""
    weights = model_path(pretrain)
    args = training_arguments(loop, save_path)
    kept = successful(read_records(dataset, Trajectory, limit=max_samples), min_reward, dataset)
    chat = ChatFormat.from_pretrained(weights)
    texts, dropped = encode_trajectories(kept, chat, max_len, dataset, response_template)
    check_loadable(weights)
    settings = {
        "pretrain": pretrain, "dataset": dataset, "min_reward": min_reward,
        "response_template": response_template, "max_len": max_len, "max_samples": max_samples, **loop.that_matter(),
    }  # fmt: skip
    run = open_model_directory(save_path, settings, [dataset, model_input(pretrain)], overwrite, args)
    with run or contextlib.nullcontext():
        if is_complete(run, args):
            return _already_complete(save_path, args)
        trainer = ImitationTrainer(load_weights(weights, _dtype(loop)), args, texts, chat)
        summary = {"trajectories": len(texts), "dropped": dict(dropped)}
        return _report(fit(trainer, save_path, run, summary), dropped, save_path, args)


def _dtype(loop: LoopSettings) -> torch.dtype:
    """DeepSpeed keeps a float32 copy of bfloat16 weights; without it the weights themselves are float32."""
    return torch.bfloat16 if loop.bf16 and loop.deepspeed else torch.float32


def _load_reference(path: str, loop: LoopSettings, args: TrainingArguments) -> torch.nn.Module:
    """The frozen model, whole in every process: it is gone before the trained one is split up by ZeRO-3."""
    if not loop.deepspeed:
        return load_frozen(path, _dtype(loop), args.device)
    from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

    unset_hf_deepspeed_config()
    try:
        return load_frozen(path, _dtype(loop), args.device)
    finally:
        set_hf_deepspeed_config(args.hf_deepspeed_config)


def _content(path: str) -> str:
    return f"{path} {hash_input(path) if Path(path).exists() else ''}"


def _already_complete(save_path: str, args: TrainingArguments) -> None:
    if args.process_index == 0:
        print(f"{save_path}: already complete")


def _report(summary: dict, dropped: Counter, save_path: str, args: TrainingArguments) -> dict:
    if args.process_index == 0:
        for why, count in dropped.items():
            tqdm.write(f"left out: {count} {why}")
        figures = ", ".join(f"{k} {v:.4g}" for k, v in summary["last"].items() if isinstance(v, int | float))
        print(f"{save_path}: {summary['steps']} steps in {summary['seconds']} s; last logged: {figures}")
    return summary
