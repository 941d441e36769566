"""AdamW's groups and moments, and the learning rate of each step."""

from __future__ import annotations

import pytest
import torch

from sweet_rl.training.optimizer import learning_rates, make_optimizer
from sweet_rl.training.settings import TrainingSettings
from tests.support.tiny_models import tiny_model


@pytest.mark.parametrize("ratio, expected", [(0.1, [0.5, 1, 0.55, 0.1]), (0.0, [0.5, 1, 0.5, 0])])
def test_the_cosine_ends_at_the_ratio_of_the_peak(ratio, expected):
    settings = TrainingSettings(warmup_ratio=0.2, learning_rate=1.0, min_learning_rate_ratio=ratio)
    rate = learning_rates(settings, steps=9)  # 2 steps of warm-up, 8 of the cosine, whose end is after the last step
    assert [rate(step) for step in (0, 1, 5, 9)] == pytest.approx(expected)
    assert rate(5) == pytest.approx(expected[2]), "a function of the step alone"


@pytest.mark.parametrize("steps, rates", [(1, [1.0]), (2, [1.0, 0.5]), (3, [1.0, 0.75, 0.25])])
def test_every_step_of_the_shortest_trainings_moves_the_weights(steps, rates):
    settings = TrainingSettings(warmup_ratio=0.03, learning_rate=1.0, min_learning_rate_ratio=0.0)
    assert [learning_rates(settings, steps)(done) for done in range(steps)] == pytest.approx(rates)


def test_weight_decay_shrinks_all_weights_but_norms_and_biases_beside_the_gradient():
    model = tiny_model("qwen2")
    optimizer = make_optimizer(model, TrainingSettings(weight_decay=0.5, learning_rate=0.1))
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    assert any(name.endswith("bias") for name in before)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for name, weight in model.named_parameters():
        kept = 1.0 if "norm" in name or name.endswith("bias") else 1 - 0.1 * 0.5
        torch.testing.assert_close(weight.detach(), kept * before[name])


def test_the_first_steps_of_adam_follow_the_given_betas():
    model = tiny_model("llama")
    weight = model.lm_head.weight
    optimizer = make_optimizer(model, TrainingSettings(learning_rate=0.1, adam_betas=(0.5, 0.75)))
    before = weight.detach().clone()
    for gradient in (1.0, 3.0):
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
    # Step 1 moves by the rate. Step 2: moments 0.5 * 0.5 + 0.5 * 3 and 0.75 * 0.25 + 0.25 * 9, over 1 - beta^2.
    second = (1.75 / 0.75) / (2.4375 / 0.4375) ** 0.5
    torch.testing.assert_close(weight.detach(), before - 0.1 * (1 + second))
