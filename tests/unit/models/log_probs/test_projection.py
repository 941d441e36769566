"""Logits that are wider than the weights they are made of."""

from __future__ import annotations

import pytest
import torch

from sweet_rl.models.log_probs.logps import completion_logps
from sweet_rl.models.log_probs.projection import projection_replaced, wide_projection
from sweet_rl.models.log_probs.rows import lay_out
from tests.support.tiny_models import tiny_model
from tests.unit.models.log_probs.test_logps import dialogue_texts


def linear(bias: bool = True, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.nn.Linear, torch.Tensor]:
    """A projection whose logits are about 16 in size, and hidden states."""
    draw = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(64, 50, bias=bias, dtype=dtype)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(2 * torch.randn(parameter.shape, generator=draw))
    return head, torch.randn(9, 64, generator=draw).to(dtype)


@pytest.mark.parametrize("bias", [False, True])
def test_bfloat16_weights_give_the_logits_of_float32_and_the_gradients_of_bfloat16(bias):
    head, hidden = linear(bias)
    exact, states = linear(bias)[0].double(), hidden.double().requires_grad_()
    expected = exact(states)
    found = wide_projection(head, head.forward)(hidden.requires_grad_())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    assert (head(hidden).double() - expected).abs().max() > 0.02  # what rounding costs
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(hidden.grad.double(), states.grad, rtol=0.02, atol=0.1)
    for name, parameter in head.named_parameters():
        assert parameter.grad.dtype == torch.bfloat16
        torch.testing.assert_close(parameter.grad.double(), exact.get_parameter(name).grad, rtol=0.02, atol=0.1)


def test_under_autocast_float32_weights_are_reduced_and_their_logits_are_not():
    head, hidden = linear(dtype=torch.float32)
    expected = torch.nn.functional.linear(hidden.bfloat16().double(), head.weight.bfloat16().double()) + head.bias
    with torch.autocast("cpu", torch.bfloat16):
        found = wide_projection(head, head.forward)(hidden)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    found.sum().backward()
    assert head.weight.grad.dtype == torch.float32


def test_log_probs_of_a_bfloat16_model_are_those_of_its_hidden_states_in_float64():
    model = tiny_model("llama", torch.bfloat16)
    with torch.no_grad():
        model.lm_head.weight *= 100
        batch = lay_out(dialogue_texts(), share_prompts=False)
        states = []
        with projection_replaced(model, lambda project, hidden: states.append(hidden) or project(hidden[0])[None]):
            model(input_ids=batch["input_ids"], attention_mask=(batch["blocks"] >= 0).long())
        logits = states[0][batch["rows"], batch["columns"]].double() @ model.lm_head.weight.double().t()
        expected = logits.log_softmax(-1).gather(-1, batch["targets"][:, None])[:, 0]
        assert logits.abs().max() > 16
        torch.testing.assert_close(completion_logps(model, batch).double(), expected, rtol=1e-5, atol=1e-4)
