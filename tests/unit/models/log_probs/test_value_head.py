"""Values of shared rows against one plain pass per text, and heads on disk."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.log_probs.value_head import (
    attach_value_head,
    load_value_model,
    turn_values,
    value_batch,
    value_texts,
)
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import tiny_model
from tests.unit.models.log_probs.test_logps import dialogue_texts


def plain_values(model, texts: list[EncodedText], unit: str) -> torch.Tensor:
    """One text at a time: the head on the mean hidden state up to each turn's end."""
    out = []
    for text in texts:
        ids = torch.from_numpy(text.ids)[None]
        hidden = model.model(input_ids=ids).last_hidden_state[0]
        last = [text.targets[text.turns == turn][-1] + 1 for turn in range(text.turns[-1] + 1)]
        for end in last if unit == "turn" else [len(text)]:
            out.append(model.value_head(hidden[:end].mean(0))[0])
    return torch.stack(out)


@pytest.mark.parametrize("family, unit, share", [
    ("llama", "turn", True), ("qwen3", "turn", True), ("gemma", "turn", True), ("llama", "trajectory", True),
    ("llama", "turn", False), ("llama", "trajectory", False),
])  # fmt: skip
def test_values_of_shared_rows_equal_one_pass_per_text_in_values_and_gradients(family, unit, share):
    model = attach_value_head(tiny_model(family), seed=5)
    texts = dialogue_texts()
    expected = plain_values(model, texts, unit)
    weights = torch.randn(len(expected), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (expected * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    if share:
        assert share_prompts(model)
    found = turn_values(model, value_batch(texts, share, unit=unit))
    (found * weights).sum().backward()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for name, gradient in gradients.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, rtol=1e-10, atol=1e-10)


def test_a_value_is_computed_in_float32_where_autocast_computes_the_rest_in_bfloat16():
    model, texts = attach_value_head(tiny_model("llama").float(), seed=5), dialogue_texts()
    expected = plain_values(model, texts, "turn")
    model.model.forward = torch.autocast("cpu", enabled=False)(model.model.forward)  # only the values may differ
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = turn_values(model, value_batch(texts, False, unit="turn"))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # bfloat16 has three digits


@pytest.mark.parametrize("share", [True, False])
def test_the_value_of_a_text_is_that_of_its_last_turn_in_the_order_of_the_texts(share):
    model = attach_value_head(tiny_model("llama"), seed=5)
    texts = dialogue_texts()
    expected = plain_values(model, texts, "trajectory").tolist()
    if share:
        assert share_prompts(model)
    np.testing.assert_allclose(value_texts(model, texts, 30, share), expected, atol=1e-10)


def test_the_head_of_a_bfloat16_model_is_float32_and_takes_steps_as_small_as_a_learning_rate():
    model = attach_value_head(tiny_model("llama", torch.bfloat16), seed=5)
    assert model.value_head.weight.dtype == torch.float32 and model.dtype == torch.bfloat16
    before = model.value_head.weight.detach().clone()
    optimizer = torch.optim.AdamW(model.value_head.parameters(), lr=3e-5)
    values = turn_values(model, value_batch(dialogue_texts(), share=False))
    assert values.dtype == torch.float32
    values.sum().backward()
    optimizer.step()
    moved = (model.value_head.weight - before).abs()
    torch.testing.assert_close(moved, torch.full_like(before, 3e-5), rtol=0.02, atol=0)


@pytest.mark.parametrize("shards", [{}, {"max_shard_size": "20KB"}])
def test_a_saved_head_is_found_and_loaded_frozen(tiny_chat_model, tmp_path, shards):
    with pytest.raises(UserError, match="train_value.py"):
        load_value_model(tiny_chat_model)
    model = attach_value_head(tiny_model("llama", torch.float32), seed=7)
    model.save_pretrained(tmp_path / "value", **shards)
    assert (tmp_path / "value" / "model.safetensors.index.json").exists() == bool(shards)
    reduced = load_value_model(str(tmp_path / "value"), torch.bfloat16, "cpu")
    assert reduced.dtype == torch.bfloat16
    torch.testing.assert_close(reduced.value_head.weight, model.value_head.weight, rtol=0, atol=0)
    found = load_value_model(str(tmp_path / "value"), torch.float64, "cpu")
    assert found.value_head.weight.dtype == torch.float64
    torch.testing.assert_close(found.value_head.weight, model.value_head.weight.double(), rtol=0, atol=0)
    assert not any(parameter.requires_grad for parameter in found.parameters())
