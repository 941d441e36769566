"""What a training optimises, and the examples that it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from sweet_rl.models.log_probs.logps import completion_logps


@dataclass(frozen=True)
class Objective:
    """What a training optimises.

    Attributes:
        collate: Function from the indices of examples to their batch. Its entry `items` is the number of things over
            which the loss is a mean: pairs, dialogues or tokens.
        losses: Function of (outputs, batch) that returns the sum of the items' losses, and sums over the items of
            figures for the log.
        outputs: Function of (model, batch) that returns what the losses are computed from: log-probs of the trained
            tokens, or values.
        first_loss: Mean of the figure `preference_loss` in the first step if the trained model is then its reference,
            whose log-probs are the batch's `reference`; else None.
    """

    collate: Callable[[list[int]], dict[str, Any]]
    losses: Callable[[Tensor, dict[str, Any]], tuple[Tensor, dict[str, Tensor]]]
    outputs: Callable[[torch.nn.Module, dict[str, Any]], Tensor] = completion_logps
    first_loss: float | None = None


class Examples(Protocol):
    """Examples by index: the prompt and the length in tokens of each."""

    prompts: Sequence[bytes]
    lengths: Sequence[int]
