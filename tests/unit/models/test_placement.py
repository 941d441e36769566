"""On how many GPUs weights fit, and which GPUs each process sees."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models import placement
from sweet_rl.models.placement import gpus_for, parameter_count, visible_groups
from sweet_rl.models.vllm_local import parallel_sizes
from tests.support.tiny_models import save_tiny_chat_model

GIB = 2**30
NODE = [80 * GIB] * 8


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"))


def test_parameters_are_counted_without_loading_weights(model):
    weights = AutoModelForCausalLM.from_pretrained(model)
    assert parameter_count(model) == sum(p.numel() for p in weights.parameters())


@pytest.mark.parametrize("weights, memory, expected", [
    (16e9, NODE, 1),  # 8B in bfloat16
    (141e9, NODE, 4),  # 70B: two GPUs would leave 1 % for what is computed with it
    (282e9, NODE, 8),  # 70B with its reference model
    (141e9, NODE[:1], 1),
    (141e9, [141 * 10**9] * 8, 2),
    (1e15, NODE[:6], 6),
])  # fmt: skip
def test_weights_take_as_few_gpus_as_hold_them(weights, memory, expected):
    assert gpus_for(weights, memory) == expected


@pytest.fixture
def gpus(monkeypatch):
    """Sets the number of visible GPUs and their memory: this machine has none."""

    def see(count: int, memory: float = 80 * GIB, names: str | None = None) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(placement, "gpu_memory", lambda free=False: [memory] * count)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if names is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)

    return see


def test_each_process_sees_gpus_of_its_own_among_the_visible_ones(gpus):
    gpus(5)
    assert [group["CUDA_VISIBLE_DEVICES"] for group in visible_groups(2)] == ["0,1", "2,3"]
    gpus(3, names="7,4,1")
    assert [group["CUDA_VISIBLE_DEVICES"] for group in visible_groups(1)] == ["7", "4", "1"]


def test_vllm_gets_as_many_engines_as_the_gpus_hold(gpus, model):
    gpus(1)
    assert parallel_sizes(model) == {}
    gpus(8)
    assert parallel_sizes(model) == {"tensor_parallel_size": 1, "data_parallel_size": 8}
    gpus(8, memory=2 * parameter_count(model) / 0.8 / 2)
    assert parallel_sizes(model) == {"tensor_parallel_size": 2, "data_parallel_size": 4}
