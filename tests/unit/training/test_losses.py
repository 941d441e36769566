"""Losses against numbers computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from sweet_rl.scoring.length_normalization import token_weights
from sweet_rl.training.losses import dpo_loss, log_ratios, nll_loss

# Text 0: turns of 1 and 3 tokens. Text 1: one turn of 2 tokens.
TEXT = torch.tensor([0, 0, 0, 0, 1, 1])
TURN = torch.tensor([0, 1, 1, 1, 2, 2])
POLICY = torch.tensor([-1.0, -2.0, -3.0, -4.0, -1.0, -3.0], dtype=torch.float64)
REFERENCE = torch.tensor([-2.0, -2.0, -2.0, -2.0, -2.0, -2.0], dtype=torch.float64)
# log-ratios: 1 | 0 -1 -2 || 1 -1


@pytest.mark.parametrize("normalize, expected", [
    ("none", [1 + 0 - 1 - 2, 0.0]),
    ("trajectory", [-2 / 4, 0.0]),
    ("turn", [1 + (0 - 1 - 2) / 3, 0.0]),
])  # fmt: skip
def test_log_ratios_are_summed_averaged_over_the_dialogue_or_averaged_by_turn(normalize, expected):
    found = log_ratios(POLICY, REFERENCE, TEXT, TURN, 2, normalize)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_turn_weights_are_one_over_the_turns_length():
    third = 1 / 3
    weights = token_weights(TEXT, TURN, "turn", torch.float64)
    torch.testing.assert_close(weights, torch.tensor([1, third, third, third, 0.5, 0.5], dtype=torch.float64))


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(ValueError, match="word"):
        token_weights(TEXT, TURN, "word", torch.float32)


def test_dpo_loss_is_the_log_sigmoid_of_the_scaled_margin():
    loss = dpo_loss(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]), beta=0.5)
    torch.testing.assert_close(loss, torch.tensor([math.log(1 + math.exp(-1.0)), math.log(2)]))


def test_the_gradient_pushes_chosen_up_and_rejected_down():
    chosen, rejected = torch.tensor([0.0], requires_grad=True), torch.tensor([0.0], requires_grad=True)
    dpo_loss(chosen, rejected, beta=0.1).sum().backward()
    assert chosen.grad.item() == pytest.approx(-0.05) and rejected.grad.item() == pytest.approx(0.05)


def test_nll_is_the_mean_over_each_texts_trained_tokens():
    torch.testing.assert_close(nll_loss(POLICY, TEXT, 2), torch.tensor([2.5, 2.0], dtype=torch.float64))


def test_a_text_without_tokens_gives_zero_and_not_nan():
    assert nll_loss(POLICY, TEXT, 3)[2] == 0
