"""Training a value head: the paper's ablation of the log-ratio critic, and its value function (Figure 3a).

models/log_probs/value_head.py defines the values of turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from sweet_rl.models.log_probs.rows import sum_by_text
from sweet_rl.models.log_probs.value_head import turn_values, value_batch
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, Trajectory
from sweet_rl.training.bradley_terry import value_preference_losses
from sweet_rl.training.complete import value_settings
from sweet_rl.training.examples import Examples, Hint, encode_pairs, encode_trajectories, successful
from sweet_rl.training.loop import Objective
from sweet_rl.training.run import Training
from sweet_rl.training.settings import DataSettings, TrainingSettings, ValueSettings


def value_classification_losses(
    values: torch.Tensor, text_of_value: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Mean over a text's turns of the cross-entropy of (label, sigmoid of the value), summed over texts.

    `labels` [N] are 1 for success, else 0. The logged accuracy is that of the mean value of each text.
    """
    counts = torch.bincount(text_of_value, minlength=len(labels)).to(values.dtype)
    labels = labels.to(values.dtype)
    losses = F.binary_cross_entropy_with_logits(values, labels[text_of_value], reduction="none")
    loss = (sum_by_text(losses, text_of_value, len(labels)) / counts).sum()
    scores = sum_by_text(values, text_of_value, len(labels)) / counts
    return loss, {
        "accuracy": ((scores > 0) == (labels > 0.5)).float().sum(),
        "predicted": scores.sigmoid().sum(),
        "succeeded": labels.sum(),
    }


def value_objective(examples: Examples, how: ValueSettings, share: bool) -> Objective:
    """Bradley-Terry on pairs, or cross-entropy on dialogues."""
    if how.objective == "preference":
        return value_preference_objective(
            examples, how, lambda numbers: value_batch([examples.texts[n] for n in numbers], share)
        )

    def collate(indices: list[int]) -> dict[str, Any]:
        batch = value_batch([examples.texts[i] for i in examples.rows[indices, 0]], share)
        return batch | {"labels": torch.tensor([examples.labels[i] for i in indices]), "items": len(indices)}

    def losses(values: torch.Tensor, batch: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return value_classification_losses(values, batch["text_of_value"], batch["labels"])

    return Objective(collate, losses, turn_values)


def value_preference_objective(examples: Examples, how: ValueSettings, make_batch) -> Objective:
    """Bradley-Terry on pairs; `make_batch(numbers)` returns the batch of the texts with these numbers."""

    def collate(indices: list[int]) -> dict[str, Any]:
        pairs = examples.rows[indices]
        numbers, local = np.unique(pairs, return_inverse=True)
        return make_batch(numbers) | {"pairs": torch.from_numpy(local.reshape(pairs.shape)), "items": len(pairs)}

    def losses(values: torch.Tensor, batch: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        num_texts = len(batch["starts"])
        return value_preference_losses(values, batch["text_of_value"], num_texts, batch["pairs"], how.beta)

    return Objective(collate, losses, turn_values)


def check_both_classes(labels: Sequence[float], path: str) -> None:
    """Raise UserError if no label differs from the others: every value would only learn that one."""
    if len(set(labels)) == 1:
        raise UserError(
            f"{path}: all {len(labels)} dialogues have {'reward 1' if labels[0] else 'a reward below 1'}, and "
            "--objective classification learns to tell success (reward 1) from the rest. For partial rewards take "
            "--objective preference, on pairs that were written with --min_gap."
        )


def train_value(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: ValueSettings,
    settings: TrainingSettings,
    data: DataSettings,
    hint: Hint | None = None,
    overwrite: bool = False,
) -> dict | None:
    """Train a model with a value head, on pairs ("preference") or on graded trajectories ("classification").

    `hint` puts the reference solution in front of trajectories (`encode_trajectories`); the texts of pairs were written
    with or without it. Other arguments, result and errors are those of `run.Training`.
    """
    training = Training(pretrain, dataset, save_path, settings, data, overwrite)
    with training.opened(value_settings(how, hint is not None)) as unfinished:
        if not unfinished:
            return None
        chat = ChatFormat.from_pretrained(training.weights)
        if how.objective == "preference":
            examples = encode_pairs(training.read(PreferencePair), chat, data, dataset)
            counts = {"pairs": len(examples), "texts": len(examples.texts)}
        else:
            graded = successful(training.read(Trajectory), 0.0, dataset)
            examples = encode_trajectories(graded, chat, data, dataset, hint)
            check_both_classes(examples.labels, dataset)
            counts = {"trajectories": len(examples), "successes": int(sum(examples.labels))}
        model = training.with_value_head(training.load_weights(training.weights))
        training.begin()
        objective = value_objective(examples, how, training.share_prompts(model))
        return training.fit(model, objective, examples, counts, chat)
