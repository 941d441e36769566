"""Stops a training whose figures or weights are no finite numbers any more, before they are saved."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from sweet_rl.models.weights import first_not_finite
from sweet_rl.runs.errors import UserError


def check_figures(step: int, figures: Mapping[str, float]) -> None:
    """Raise UserError naming the step and the figures of it that are NaN or infinite."""
    found = [f"the {name} is {value}" for name, value in figures.items() if not math.isfinite(value)]
    if found:
        raise UserError(_stopped(step, " and ".join(found)))


def check_weights(step: int, model: torch.nn.Module) -> None:
    """Raise UserError naming the step and the first weight that holds NaN or infinity."""
    if (name := first_not_finite(model)) is not None:
        raise UserError(_stopped(step, f"the weight {name} holds NaN or infinity"))


def _stopped(step: int, found: str) -> str:
    return (
        f"step {step}: {found}. Training is stopped, and nothing of this step is saved; the last checkpoint stays. The "
        "same command would come to this step again: give a lower learning rate, and --overwrite or another path."
    )
