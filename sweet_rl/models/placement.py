"""On how many GPUs a model's weights fit."""

from __future__ import annotations

import os

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

SHARE = 0.8  # of a GPU that weights may take; the rest is for what is computed with them


def parameter_count(path: str) -> int:
    """Number of weights of the model at `path` (directory or hub name), from its configuration alone."""
    config = AutoConfig.from_pretrained(path)
    kinds = (AutoModelForCausalLM, AutoModelForImageTextToText)
    kind = next((kind for kind in kinds if type(config) in kind._model_mapping), AutoModelForCausalLM)
    with torch.device("meta"):
        model = kind.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def gpu_memory(free: bool = False) -> list[int]:
    """Bytes of each visible GPU: all, or those that are free."""
    if free:
        return [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
    return [torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count())]


def gpus_for(weights: float, memory: list[int]) -> int:
    """The fewest GPUs that hold so many bytes of weights: 1, 2, 4 ... or all of them.

    Args:
        weights: bytes, of all models that are held at the same time.
        memory: bytes of each GPU; at least one.
    """
    count = 1
    while count < len(memory) and weights > SHARE * count * min(memory):
        count *= 2
    return min(count, len(memory))


def visible_groups(each: int) -> list[dict[str, str]]:
    """The visible GPUs in groups of `each`, as the CUDA_VISIBLE_DEVICES of one process per group.

    GPUs that make no whole group are left out.
    """
    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")[:count]
    groups = [names[first : first + each] for first in range(0, count - each + 1, each)]
    return [{"CUDA_VISIBLE_DEVICES": ",".join(group)} for group in groups]
