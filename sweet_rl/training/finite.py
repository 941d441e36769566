"""Stops a training whose figures or weights are no finite numbers any more, before they are saved."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from sweet_rl.models.weights import first_not_finite
from sweet_rl.runs.errors import UserError


def finite_figures(
    step: int, figures: Mapping[str, torch.Tensor | float], accelerator: Accelerator
) -> dict[str, float]:
    """The means of the figures over the processes.

    Raises:
        UserError: In all processes, naming the step, if a figure is NaN or infinite in one of them.
    """
    values = [torch.as_tensor(value, device=accelerator.device).detach().double() for value in figures.values()]
    means = accelerator.reduce(torch.stack(values), reduction="mean").tolist()
    found = dict(zip(figures, means, strict=True))
    check_figures(step, found)
    return found


def check_figures(step: int, figures: Mapping[str, float]) -> None:
    """Raise UserError naming the step and the figures of it that are NaN or infinite."""
    found = [f"the {name} is {value}" for name, value in figures.items() if not math.isfinite(value)]
    if found:
        raise UserError(_stopped(step, " and ".join(found)))


def check_weights(step: int, model: torch.nn.Module, accelerator: Accelerator | None = None) -> None:
    """Raise UserError naming the step and the first weight that holds NaN or infinity.

    With an accelerator it is raised in all processes, which may hold different parts of the weights.
    """
    found = [first_not_finite(model)]
    if accelerator is not None and accelerator.num_processes > 1:
        found = gather_object(found)
    for name in filter(None, found):
        raise UserError(_stopped(step, f"the weight {name} holds NaN or infinity"))


def _stopped(step: int, found: str) -> str:
    return (
        f"step {step}: {found}. Training is stopped, and nothing of this step is saved; the last checkpoint stays. The "
        "same command would come to this step again: give a lower learning rate, and --overwrite or another path."
    )
