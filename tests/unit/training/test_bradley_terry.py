"""Losses against numbers computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from sweet_rl.training.bradley_terry import (
    dpo_loss,
    ipo_loss,
    log_ratios,
    nll_loss,
    preference_losses,
    token_weights,
    value_preference_losses,
)
from sweet_rl.training.rejection_fine_tuning import imitation_losses
from sweet_rl.training.settings import PreferenceSettings
from sweet_rl.training.value import value_classification_losses

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


def test_dpo_loss_is_the_log_sigmoid_of_the_scaled_margin():
    loss = dpo_loss(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]), beta=0.5)
    torch.testing.assert_close(loss, torch.tensor([math.log(1 + math.exp(-1.0)), math.log(2)]))


def test_label_smoothing_mixes_in_the_loss_of_the_exchanged_pair():
    chosen, rejected = torch.tensor([3.0]), torch.tensor([1.0])  # margin 0.5 * 2 = 1
    loss = dpo_loss(chosen, rejected, beta=0.5, label_smoothing=0.2)
    assert loss.item() == pytest.approx(0.8 * math.log(1 + math.exp(-1)) + 0.2 * math.log(1 + math.exp(1)))


def test_ipo_is_the_squared_distance_of_the_margin_from_half_the_inverse_of_beta():
    loss = ipo_loss(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]), beta=0.1)
    torch.testing.assert_close(loss, torch.tensor([9.0, 25.0]))  # (2 - 5)^2, (0 - 5)^2


def test_nll_is_the_mean_over_each_texts_trained_tokens():
    torch.testing.assert_close(nll_loss(POLICY, TEXT, 2), torch.tensor([2.5, 2.0], dtype=torch.float64))


def test_a_text_without_tokens_gives_zero_and_not_nan():
    assert nll_loss(POLICY, TEXT, 3)[2] == 0


# Text 0 has two turns of one token each, text 1 has one of one token.
TOKENS = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2])
LOGPS = torch.tensor([-1.0, -2.0, -4.0])
OTHER = torch.tensor([-2.0, -2.0, -3.0])


def test_a_pairs_loss_is_the_preference_term_and_the_chosen_texts_nll():
    loss, metrics = preference_losses(
        LOGPS, OTHER, *TOKENS, 2, torch.tensor([[0, 1]]), PreferenceSettings(0.5, 0.1, "none")
    )
    # log-ratios: chosen 1 + 0, rejected -1; margin 0.5 * 2 = 1; NLL of the chosen (1 + 2) / 2
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1)) + 0.1 * 1.5)
    assert metrics["margin"].item() == pytest.approx(1)
    assert metrics["nll"].item() == pytest.approx(1.5)
    assert metrics["chosen_reward"].item() == pytest.approx(0.5)
    assert metrics["rejected_reward"].item() == pytest.approx(-0.5)
    assert metrics["accuracy"].item() == 1


def test_a_text_of_several_pairs_counts_in_each():
    pairs = torch.tensor([[0, 1], [0, 1], [1, 0]])
    loss, metrics = preference_losses(LOGPS, OTHER, *TOKENS, 2, pairs, PreferenceSettings(0.5, 0, "none"))
    up, down = math.log(1 + math.exp(-1)), math.log(1 + math.exp(1))
    assert loss.item() == pytest.approx(2 * up + down)
    assert metrics["accuracy"].item() == 2


def test_a_pairs_score_is_the_sum_over_turns():
    values, owner = torch.tensor([1.0, 2.0, -1.0]), torch.tensor([0, 0, 1])
    loss, metrics = value_preference_losses(values, owner, 2, torch.tensor([[0, 1], [1, 0]]), beta=0.5)
    # scores 1.5 and -0.5: margins 2 and -2
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)) + math.log(1 + math.exp(2)))
    assert metrics["accuracy"].item() == 1 and metrics["chosen_reward"].item() == pytest.approx(1.0)


def test_classification_is_the_cross_entropy_of_every_turn_averaged_by_dialogue():
    values, owner = torch.tensor([1.0, 3.0, -1.0]), torch.tensor([0, 0, 1])
    loss, metrics = value_classification_losses(values, owner, torch.tensor([1.0, 1.0]))
    won = [math.log(1 + math.exp(-value)) for value in (1, 3, -1)]
    assert loss.item() == pytest.approx((won[0] + won[1]) / 2 + won[2])
    assert metrics["accuracy"].item() == 1 and metrics["succeeded"].item() == 2
    _, metrics = value_classification_losses(values, owner, torch.tensor([1.0, 0.0]))
    assert metrics["accuracy"].item() == 2 and metrics["succeeded"].item() == 1


def test_imitation_counts_every_token_the_same():
    loss, metrics = imitation_losses(torch.tensor([-1.0, -2.0, -4.0]))
    assert loss.item() == metrics["nll"].item() == 7


# Text 0: turns of 1 and 3 tokens. Text 1: one turn of 2 tokens.
TEXT = torch.tensor([0, 0, 0, 0, 1, 1])
TURN = torch.tensor([0, 1, 1, 1, 2, 2])
THIRD = 1 / 3


@pytest.mark.parametrize("normalize, expected", [
    ("turn", [1, THIRD, THIRD, THIRD, 0.5, 0.5]),
    ("trajectory", [0.25, 0.25, 0.25, 0.25, 0.5, 0.5]),
    ("none", [1, 1, 1, 1, 1, 1]),
])  # fmt: skip
def test_a_token_counts_one_over_the_length_of_its_turn_or_of_its_dialogue_or_whole(normalize, expected):
    weights = token_weights(TEXT, TURN, normalize, torch.float64)
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-15)
