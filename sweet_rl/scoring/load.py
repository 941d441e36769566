"""Models loaded for training or for scoring."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM

from sweet_rl.errors import UserError
from sweet_rl.models.loadable import check_loadable
from sweet_rl.models.placement import gpu_memory, gpus_for, parameter_count


def load_pretrained(kind: Any, path: str, dtype: torch.dtype, **how: Any) -> torch.nn.Module:
    """The model at `path`, loaded by the Auto class `kind`; `how`: other arguments of `from_pretrained`.

    Raises UserError if it cannot be loaded.
    """
    try:
        return kind.from_pretrained(path, dtype=dtype, **how)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no model can be loaded from there. {error}") from error


def freeze(model: torch.nn.Module, device: torch.device | str | None = None) -> torch.nn.Module:
    """The model for scoring: no gradients, evaluation mode, on `device` (None: the GPU if there is one)."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval().requires_grad_(False)


def load_weights(path: str, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The causal language model at `path` (directory or hub name). Raises UserError if there is none."""
    check_loadable(path)
    return load_pretrained(AutoModelForCausalLM, path, dtype)


def load_frozen(
    path: str, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> torch.nn.Module:
    """The causal language model at `path` for scoring (`freeze`).

    If no device is given and one GPU is too small for the weights, they are divided among all visible GPUs by layers.
    """
    if device is None and needs_several_gpus(path, dtype):
        check_loadable(path)
        model = load_pretrained(AutoModelForCausalLM, path, dtype, device_map="auto")
        return model.eval().requires_grad_(False)
    return freeze(load_weights(path, dtype), device)


def needs_several_gpus(path: str, dtype: torch.dtype) -> bool:
    """Whether there are several GPUs and the model's weights do not fit into what is free on one of them."""
    memory = gpu_memory(free=True)
    return len(memory) > 1 and gpus_for(parameter_count(path) * dtype.itemsize, memory) > 1
