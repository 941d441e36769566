"""Models loaded for training or for scoring."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from sweet_rl.errors import UserError
from sweet_rl.models.loadable import check_loadable
from sweet_rl.models.placement import gpu_memory, gpus_for, parameter_count


def require_bitsandbytes(flag: str) -> None:
    """Raise UserError naming the `flag` that needs it if bitsandbytes is not installed."""
    if importlib.util.find_spec("bitsandbytes") is None:
        raise UserError(f"{flag} needs bitsandbytes: pip install bitsandbytes, or leave the flag out.")


def load_pretrained(kind: Any, path: str, dtype: torch.dtype, in_4bit: bool = False, **how: Any) -> torch.nn.Module:
    """The model at `path`, loaded by the Auto class `kind`; `how`: other arguments of `from_pretrained`.

    With `in_4bit` its linear layers are NormalFloat4 with quantised constants (QLoRA, Dettmers et al. 2023) and compute
    in `dtype`. Raises UserError if the model cannot be loaded.
    """
    if in_4bit:
        how["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
        )
    try:
        model = kind.from_pretrained(path, dtype=dtype, **how)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no model can be loaded from there. {error}") from error
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):  # scoring would pack 4-bit layers, without gradients
            module.support_avx512bf16_for_cpu = False
    return model


def freeze(model: torch.nn.Module, device: torch.device | str | None = None) -> torch.nn.Module:
    """The model for scoring: no gradients, evaluation mode, on `device` (None: the GPU if there is one)."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval().requires_grad_(False)


def load_weights(path: str, dtype: torch.dtype = torch.float32, in_4bit: bool = False) -> torch.nn.Module:
    """The causal language model at `path` (directory or hub name); `in_4bit` as of `load_pretrained`.

    Raises UserError if there is none.
    """
    check_loadable(path)
    return load_pretrained(AutoModelForCausalLM, path, dtype, in_4bit)


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
