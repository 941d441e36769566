"""AdamW, and the learning rate of each step."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from transformers import get_cosine_with_min_lr_schedule_with_warmup

from sweet_rl.training.settings import TrainingSettings


def make_optimizer(model: torch.nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """AdamW on the trained weights. Matrices decay; vectors, which are biases and norms, do not."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if is_matrix(weight)], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in trained if not is_matrix(weight)], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    first, second = settings.adam_betas
    return torch.optim.AdamW(groups, settings.peak_learning_rate, (first, second), fused=True)


def is_matrix(weight: torch.Tensor) -> bool:
    """Whether the weight has two dimensions or more; ZeRO-3 keeps the shape beside its part of the weight."""
    return len(getattr(weight, "ds_shape", weight.shape)) > 1


def learning_rates(settings: TrainingSettings, steps: int) -> Callable[[int], float]:
    """The learning rate of a step as a function of the number of steps before it.

    After the warm-up a cosine ends at `min_learning_rate_ratio` of the peak. The first step already has a rate above 0,
    and the last one a rate above the end of the cosine.
    """
    peak, warm_up = settings.peak_learning_rate, math.ceil(steps * settings.warmup_ratio)
    unused = torch.optim.SGD([torch.zeros(1)], lr=peak)  # the schedule needs an optimizer
    ratio = settings.min_learning_rate_ratio
    schedule = get_cosine_with_min_lr_schedule_with_warmup(unused, warm_up, steps + 1, min_lr_rate=ratio)
    (factor,) = schedule.lr_lambdas
    return lambda done: peak * factor(done + 1)
