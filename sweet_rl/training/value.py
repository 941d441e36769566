"""The critic with a regression head: a scalar on the mean hidden state (the paper's ablation of the log-ratio).

A turn's value is a linear function of the mean of the last layer's hidden states over all tokens of the text up to
the turn's end: c, o_t and a_t. It takes the place of the advantage A(o_t, a_t, c) in equation 3. One forward pass
over a dialogue gives the values of all its turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.scoring.length_normalization import sum_by_text
from sweet_rl.scoring.shared_prefix import share_prompts
from sweet_rl.scoring.value_head import turn_values, value_batch
from sweet_rl.training.examples import DialogueExamples, PreferenceExamples
from sweet_rl.training.losses import dpo_loss
from sweet_rl.training.trainer import GroupedTrainer

OBJECTIVES = ("preference", "classification")
UNITS = ("turn", "trajectory")


@dataclass(frozen=True)
class ValueObjective:
    """What the values are trained to say.

    objective: "preference", -log sigmoid(beta * (chosen's values - rejected's values)) over pairs, Bradley-Terry as
    in equation 3; or "classification", binary cross-entropy of each value as the logit of the dialogue's success
    (the value function of Figure 3a).
    unit: "turn", every turn of the agent has a value, and a dialogue their sum; or "trajectory", a dialogue has one
    value, at its end.
    """

    objective: str = "preference"
    unit: str = "turn"
    beta: float = 1.0

    def __post_init__(self) -> None:
        for name, value, known in (("objective", self.objective, OBJECTIVES), ("unit", self.unit, UNITS)):
            if value not in known:
                raise UserError(f"--{name} is {value!r}; it must be {' or '.join(known)}.")
        if self.beta <= 0:
            raise UserError(f"--beta is {self.beta}; it must be above 0.")


def preference_value_losses(
    values: Tensor, value_text: Tensor, texts: int, pairs: Tensor, beta: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum of the pairs' losses, and sums of what is worth logging. A text's score is the sum of its values.

    values [T]; value_text int64 [T], whose; pairs int64 [P, 2] (chosen, rejected).
    """
    scores = beta * sum_by_text(values, value_text, texts)
    chosen, rejected = scores[pairs[:, 0]], scores[pairs[:, 1]]
    loss = dpo_loss(chosen, rejected, 1.0).sum()
    return loss, {
        "items": torch.tensor(float(len(pairs)), device=values.device),
        "margin": (chosen - rejected).sum(),
        "accuracy": (chosen > rejected).float().sum(),
        "chosen_reward": chosen.sum(),
        "rejected_reward": rejected.sum(),
    }


def classification_losses(values: Tensor, value_text: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum over texts of the mean over their turns of the cross-entropy of (label, sigmoid of the value).

    values [T]; value_text int64 [T], whose; labels [N], 1 for success. Accuracy is that of the texts' mean values.
    """
    counts = torch.bincount(value_text, minlength=len(labels)).to(values.dtype)
    labels = labels.to(values.dtype)
    losses = F.binary_cross_entropy_with_logits(values, labels[value_text], reduction="none")
    loss = (sum_by_text(losses, value_text, len(labels)) / counts).sum()
    scores = sum_by_text(values, value_text, len(labels)) / counts
    return loss, {
        "items": torch.tensor(float(len(labels)), device=values.device),
        "accuracy": ((scores > 0) == (labels > 0.5)).float().sum(),
        "predicted": scores.sigmoid().sum(),
        "succeeded": labels.sum(),
    }


class ValuePreferenceTrainer(GroupedTrainer):
    """Trains a model with a value head on pairs."""

    def __init__(
        self, model, args, examples: PreferenceExamples, how: ValueObjective, chat: ChatFormat,
        train: np.ndarray, evaluation: np.ndarray, together: int = 4,
    ):  # fmt: skip
        self.beta, share = how.beta, share_prompts(model)

        def collate(indices: list[int]) -> dict[str, Any]:
            pairs = examples.pairs[indices]
            numbers, local = np.unique(pairs, return_inverse=True)
            batch = value_batch([examples.texts[n] for n in numbers], share, unit=how.unit)
            return batch | {"pairs": torch.from_numpy(local.reshape(pairs.shape))}

        super().__init__(
            model, args, train, evaluation, examples.prompts, examples.lengths, collate, chat, together
        )

    def items(self, batch: dict) -> int:
        return len(batch["pairs"])

    def outputs(self, model, batch: dict) -> Tensor:
        return turn_values(model, batch)

    def losses(self, values: Tensor, batch: dict) -> tuple[Tensor, dict[str, Tensor]]:
        return preference_value_losses(values, batch["value_text"], len(batch["starts"]), batch["pairs"], self.beta)


class ValueClassificationTrainer(GroupedTrainer):
    """Trains a model with a value head on dialogues that succeeded or did not; those of one task share a row."""

    def __init__(
        self, model, args, examples: DialogueExamples, how: ValueObjective, chat: ChatFormat,
        train: np.ndarray, evaluation: np.ndarray, together: int = 4,
    ):  # fmt: skip
        share = share_prompts(model)

        def collate(indices: list[int]) -> dict[str, Any]:
            batch = value_batch([examples.texts[i] for i in indices], share, unit=how.unit)
            return batch | {"labels": torch.tensor([examples.labels[i] for i in indices])}

        super().__init__(
            model, args, train, evaluation, examples.prompts, examples.lengths, collate, chat, together
        )

    def items(self, batch: dict) -> int:
        return len(batch["labels"])

    def outputs(self, model, batch: dict) -> Tensor:
        return turn_values(model, batch)

    def losses(self, values: Tensor, batch: dict) -> tuple[Tensor, dict[str, Tensor]]:
        return classification_losses(values, batch["value_text"], batch["labels"])
