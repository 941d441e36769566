"""The first loss shows whether policy and reference are computed in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from sweet_rl.models.log_probs.projection import unwrapped
from sweet_rl.runs.errors import UserError

TOLERANCE = 1e-4  # of the mean loss, in float32; relative to a loss above 1 (IPO)
BF16_DISTANCE = 0.2  # mean |log-prob - reference log-prob| per token: bfloat16 rounds a token by its place in a batch

OTHER_REFERENCE = (
    "the preference loss of the first step is {loss:.6f} instead of {expected:.6f}: the model that is trained and "
    "its reference are the same, but their log-probs differ by {distance:.2g} per token. Training is stopped, "
    "because every later loss would be wrong too. Give --overwrite to compute the reference again; if the error "
    "stays, this model computes something else in training than in evaluation and cannot be trained here."
)


def check_first(loss: float, expected: float, distance: float, exact: bool) -> None:
    """Check the first step, in which the trained model is still its reference.

    Args:
        loss: Mean preference loss over the pairs.
        expected: Loss of a policy that equals its reference, from `bradley_terry.expected_first_loss`.
        distance: Mean over the trained tokens of |log-prob under the policy - log-prob under the reference|.
        exact: Whether log-probs are computed in float32 or better. In bfloat16 rounding may move
            the loss of long texts by more than TOLERANCE, so that there the distance per token decides.

    Raises:
        UserError: The two are not the same model.
    """
    if abs(loss - expected) <= TOLERANCE * max(1, expected) or (not exact and distance <= BF16_DISTANCE):
        return
    raise UserError(OTHER_REFERENCE.format(loss=loss, expected=expected, distance=distance))


class FirstStep:
    """Sums over the first step of a training for `check_first`.

    Args:
        expected: Loss of a policy that equals its reference; None if there is nothing to check.
        exact: Whether log-probs are computed in float32 or better.
        accelerator: Processes of the training.
    """

    def __init__(self, expected: float | None, exact: bool, accelerator: Accelerator):
        self.expected, self.exact, self.accelerator = expected, exact, accelerator
        self.sums = torch.zeros(4, dtype=torch.float64, device=accelerator.device)

    def add(self, outputs: Tensor, batch: Mapping[str, Any], figures: Mapping[str, Tensor]) -> None:
        """Add a micro-batch: its log-probs ([S], or the first column of [S, 2]), and the figures of its losses."""
        if self.expected is not None:
            logps = outputs.detach() if outputs.ndim == 1 else outputs.detach()[:, 0]
            distance = (logps - batch["reference"]).abs().double() * batch["counted"]
            tokens = distance.new_tensor(distance.numel())
            parts = figures["preference_loss"], figures["items"], distance.sum(), tokens
            self.sums += torch.stack([part.detach().double() for part in parts])

    def check(self) -> None:
        """Raise UserError in all processes if the two models are not the same. Later calls do nothing."""
        if self.expected is not None:
            loss, items, distance, tokens = self.accelerator.reduce(self.sums, reduction="sum").tolist()
            check_first(loss / items, self.expected, distance / tokens, self.exact)
            self.expected = None


def has_dropout(model: torch.nn.Module) -> bool:
    """Whether the model's outputs are random in training. A new adapter's dropout is not: its output is 0."""
    modules = (
        module for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout) and "lora_" not in name
    )
    settings = unwrapped(model).config.to_dict().items()
    return any(module.p > 0 for module in modules) or any(
        name.endswith(("dropout", "pdrop", "dropout_prob")) and isinstance(value, float) and value > 0
        for name, value in settings
    )
