"""Preference training: the critic (trajectory pairs, equation 2), the policy (turn pairs, equation 4), and
multi-turn DPO, the baseline (trajectory pairs without the reference solution)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sweet_rl.models.log_probs.divergence import logps_and_kl
from sweet_rl.models.log_probs.logps import ROW_TOKENS
from sweet_rl.models.log_probs.rows import lay_out
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import check_whole, model_input, model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair
from sweet_rl.training.bradley_terry import kl_penalty, preference_losses
from sweet_rl.training.complete import preference_settings
from sweet_rl.training.examples import Examples, encode_pairs
from sweet_rl.training.loop import Objective
from sweet_rl.training.reference import reference_logps
from sweet_rl.training.run import Training
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings


def preference_objective(
    examples: Examples,
    reference: Sequence[np.ndarray],
    how: PreferenceSettings,
    share: bool = True,
    frozen: torch.nn.Module | None = None,
    equals_reference: bool = False,
) -> Objective:
    """DPO on pairs. The distinct texts of a batch are laid out in rows, those with the same prompt in one.

    Args:
        examples: The pairs.
        reference: [n_i] log-probs of the trained tokens of each text under the reference model.
        how: The loss.
        share: Whether the model, and `frozen`, use the attention that shares prompts.
        frozen: The reference model, which `kl_coef` needs.
        equals_reference: Whether the trained model begins as its reference.
    """

    def collate(indices: list[int]) -> dict[str, Any]:
        pairs = examples.rows[indices]
        numbers, local = np.unique(pairs, return_inverse=True)
        return lay_out([examples.texts[n] for n in numbers], share, ROW_TOKENS) | {
            "pairs": torch.from_numpy(local.reshape(pairs.shape)),
            "reference": torch.from_numpy(np.concatenate([reference[n] for n in numbers])),
            "items": len(pairs),
        }

    def places(batch: dict) -> tuple[torch.Tensor, torch.Tensor, int, torch.Tensor]:
        return batch["text_of_token"], batch["turn_of_token"], len(batch["starts"]), batch["pairs"]

    def losses(logps: torch.Tensor, batch: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return preference_losses(logps, batch["reference"], *places(batch), how)

    def losses_and_kl(outputs: torch.Tensor, batch: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss, figures = losses(outputs[:, 0], batch)
        kl = kl_penalty(outputs[:, 1], *places(batch), how.normalization)
        return loss + how.kl_coef * kl, figures | {"kl": kl}

    if frozen is None:
        return Objective(collate, losses, equals_reference=equals_reference)
    return Objective(collate, losses_and_kl, functools.partial(logps_and_kl, frozen), equals_reference)


def train_preferences(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: PreferenceSettings,
    settings: TrainingSettings,
    data: DataSettings,
    ref_pretrain: str | None = None,
    overwrite: bool = False,
) -> dict | None:
    """Train a model with DPO on the pairs of `dataset`. `ref_pretrain` is the reference model, by default `pretrain`.

    Other arguments, result and errors are those of `run.Training`.
    """
    training = Training(pretrain, dataset, save_path, settings, data, overwrite)
    ref_pretrain = ref_pretrain or pretrain
    weights, frozen = training.weights, model_path(ref_pretrain)
    if how.kl_coef and settings.zero_stage == 3:
        raise UserError(
            "--kl_coef needs the whole reference in every process: --zero_stage up to 2, or --lora_rank without one."
        )
    with training.opened(preference_settings(how, ref_pretrain), [model_input(ref_pretrain)]) as unfinished:
        if not unfinished:
            return None
        chat = ChatFormat.from_pretrained(weights)
        if frozen != weights:
            chat.check_vocabulary(frozen, "--ref_pretrain")
        examples = encode_pairs(training.read(PreferencePair), chat, data, dataset)
        for path in {weights, frozen}:
            check_whole(path)
        training.begin()
        if settings.lora_rank and frozen == weights and settings.plain:
            model = training.load_weights(weights)  # loaded once: without the adapter it is the reference
            reference = reference_logps(examples.texts, frozen, training, model)
        else:
            reference = reference_logps(examples.texts, frozen, training)
            model = training.load_weights(weights)
        model = training.trainable(model)
        share, reference_model = training.share_prompts(model), None
        if how.kl_coef:
            reference_model = training.load_frozen(frozen)
            share = training.share_prompts(reference_model) and share
        objective = preference_objective(examples, reference, how, share, reference_model, frozen == weights)
        counts = {"pairs": len(examples), "texts": len(examples.texts)}
        return training.fit(model, objective, examples, counts, chat)
