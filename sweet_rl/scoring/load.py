"""Models loaded for training or for scoring."""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM

from sweet_rl.errors import UserError
from sweet_rl.models.loadable import check_loadable


def load_weights(path: str, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The causal language model at `path` (directory or hub name). Raises UserError if there is none."""
    check_loadable(path)
    try:
        return AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no model can be loaded from there. {error}") from error


def load_frozen(
    path: str, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> torch.nn.Module:
    """The model for scoring: no gradients, evaluation mode, on `device` (None: the GPU if there is one)."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return load_weights(path, dtype).to(device).eval().requires_grad_(False)
