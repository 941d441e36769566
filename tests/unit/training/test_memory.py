"""Calculated memory against tensors of real models, and against figures worked out by hand."""

from __future__ import annotations

import dataclasses
import importlib

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2VLConfig

from benchmarks.memory_table import cache_bytes, cache_tokens
from sweet_rl.models.log_probs.logps import completion_logps
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.models.log_probs.shared_prefix import share_prompts
from sweet_rl.training.lora import with_adapter
from sweet_rl.training.memory import (
    LLAMA_8B,
    LLAMA_70B,
    RESERVE,
    ModelShape,
    TrainingSetup,
    activation_bytes,
    training_memory,
)
from tests.support.command_line import ROOT


def config_of(layers: int, tied: bool = True) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=128, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=4,
        intermediate_size=256, vocab_size=64, tie_word_embeddings=tied,
    )  # fmt: skip


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model_and_of_its_adapter(tied):
    config = config_of(2, tied)
    model = LlamaForCausalLM._from_config(config)
    assert ModelShape.of(config).parameters == sum(p.numel() for p in model.parameters())
    adapted = with_adapter(model, 4)
    trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    assert ModelShape.of(config).adapter_parameters(4) == trained


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_with_parts_for_text_and_pictures_says_itself_whether_its_vocabulary_is_tied(tied):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = Qwen2VLConfig(text_config=sizes | {"vocab_size": 32}, tie_word_embeddings=tied)
    shape = ModelShape.of(config, 10_000)
    assert (shape.tied, shape.hidden, shape.vocabulary, shape.parameters) == (tied, 8, 32, 10_000)


def test_the_shapes_of_llama_have_the_parameters_of_their_model_cards():
    assert ModelShape(2048, 16, 32, 8, 8192, 128256, 64, tied=True).parameters == 1_235_814_400
    assert LLAMA_8B.parameters == 8_030_261_248
    assert LLAMA_70B.parameters == 70_553_706_496


def saved_bytes(layers: int, setup: TrainingSetup, dtype: torch.dtype) -> int:
    """Bytes that autograd keeps of a forward pass of 512 tokens, without weights and their copies."""
    torch.manual_seed(0)
    model = LlamaForCausalLM._from_config(config_of(layers), dtype=dtype).train()
    share_prompts(model)
    autocast = setup.bf16 and setup.zero_stage is None
    model = with_adapter(model, setup.lora_rank, autocast=autocast) if setup.lora_rank else model
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    shapes = {shape for p in model.parameters() for shape in (tuple(p.shape), tuple(p.shape)[::-1]) if p.dim() == 2}
    kept: dict[int, int] = {}

    def pack(x: torch.Tensor) -> torch.Tensor:
        if x.untyped_storage().data_ptr() not in own and tuple(x.shape) not in shapes:
            kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    text = EncodedText.build(torch.randint(3, 64, (513,)).numpy(), [False] * 511 + [True] * 2, "a text")
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x)
    with hooks, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logps = completion_logps(model, lay_out([text], True, 4096))
    del logps
    return sum(kept.values())


@pytest.mark.parametrize("setup, dtype", [
    (TrainingSetup(bf16=True, zero_stage=2), torch.bfloat16),
    (TrainingSetup(bf16=True), torch.float32),
    (TrainingSetup(bf16=False), torch.float32),
    (TrainingSetup(bf16=True, lora_rank=2), torch.bfloat16),
])  # fmt: skip
def test_activations_of_a_layer_are_what_autograd_keeps_of_it(setup, dtype):
    setup = dataclasses.replace(setup, tokens=512, checkpointing=False)
    measured = saved_bytes(3, setup, dtype) - saved_bytes(2, setup, dtype)
    calculated = [activation_bytes(ModelShape.of(config_of(layers)), setup) for layers in (2, 3)]
    assert calculated[1] - calculated[0] == pytest.approx(measured, rel=0.03)


def test_zero_divides_optimizer_then_gradients_then_weights():
    parameters = LLAMA_8B.parameters
    plain = training_memory(LLAMA_8B, TrainingSetup())
    assert (plain.weights, plain.gradients, plain.optimizer) == (6 * parameters, 4 * parameters, 8 * parameters)
    parts = {stage: training_memory(LLAMA_8B, TrainingSetup(gpus=8, zero_stage=stage)) for stage in range(4)}
    sizes = {stage: (one.weights, one.gradients, one.optimizer) for stage, one in parts.items()}
    assert sizes[0] == (2 * parameters, 2 * parameters, 12 * parameters)
    assert sizes[1] == (2 * parameters, 2 * parameters, 1.5 * parameters)
    assert sizes[2] == (2 * parameters, parameters / 4, 1.5 * parameters)
    assert sizes[3] == (parameters / 4, parameters / 4, 1.5 * parameters)
    offloaded = training_memory(LLAMA_8B, TrainingSetup(gpus=8, zero_stage=3, offload=True))
    assert (offloaded.optimizer, offloaded.host) == (0, 1.5 * parameters)
    accumulated = training_memory(LLAMA_8B, TrainingSetup(gpus=8, zero_stage=3, accumulates=True))
    assert accumulated.gradients == parameters / 2
    assert parts[3].total - offloaded.total == offloaded.host


def test_the_cache_of_a_token_and_of_an_engine():
    assert cache_bytes(LLAMA_8B) == 2 * 32 * 8 * 128 * 2
    left = 2 * (0.9 * 80e9 - RESERVE / 2) - 2 * LLAMA_70B.parameters
    assert cache_tokens(LLAMA_70B, 80e9, gpus=2) == left / (2 * 80 * 8 * 128 * 2) < 0


def test_the_page_on_hardware_holds_the_tables_as_they_are_calculated(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    memory_table = importlib.import_module("memory_table")
    assert f"{memory_table.BEGIN}\n\n{memory_table.tables()}\n\n{memory_table.END}" in memory_table.PAGE.read_text()


def test_fsdp2_divides_what_plain_torch_repeats_and_keeps_no_second_copy_of_the_weights():
    plain, four = (TrainingSetup(gpus=4, sharding=sharding) for sharding in ("none", "fsdp2"))
    whole, divided = training_memory(LLAMA_8B, plain), training_memory(LLAMA_8B, four)
    parameters = LLAMA_8B.parameters
    assert (whole.weights, whole.gradients, whole.optimizer) == (6 * parameters, 4 * parameters, 8 * parameters)
    assert (divided.weights, divided.gradients, divided.optimizer) == (parameters, parameters, 2 * parameters)
    assert divided.activations < whole.activations, "the residual stream is bfloat16"
