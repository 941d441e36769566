"""Advantages of tokens from the credit of turns, by numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sweet_rl.integrations.turn_advantages import at_last_tokens, turn_advantages, turns_of_mask

MASK = torch.tensor([[1, 1, 0, 1, 0, 0], [1, 0, 1, 0, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]])


def test_a_turn_is_a_run_of_the_agents_tokens():
    assert turns_of_mask(MASK).tolist() == [
        [0, 0, -1, 1, -1, -1], [0, -1, 1, -1, 2, 2], [0, 0, 0, -1, -1, -1], [-1] * 6,
    ]  # fmt: skip
    assert at_last_tokens([1.0, 2.0, 3.0], MASK[0]).tolist() == [0, 1, 0, 2, 0, 0]  # the third turn was cut off


def test_every_token_has_its_turns_credit_minus_the_mean_credit_of_the_other_dialogues_turns():
    rewards = torch.stack([at_last_tokens(credit, mask) for credit, mask in zip(
        [[1.0, 3.0], [2.0, 4.0, 9.0], [5.0], []], MASK, strict=True)])  # fmt: skip
    found, returns = turn_advantages(rewards, MASK, ["a", "a", "b", "a"], scale=False)
    # Dialogue 0: the other turns of its prompt have (2 + 4 + 9) / 3 = 5; dialogue 1: (1 + 3) / 2 = 2; alone: 0.
    assert found.tolist() == [[-4, -4, 0, -2, 0, 0], [0, 0, 2, 0, 7, 7], [5, 5, 5, 0, 0, 0], [0] * 6]
    assert returns[1].tolist() == [2, 0, 4, 0, 9, 9]
    scaled, _ = turn_advantages(rewards, MASK, ["a", "a", "b", "a"], scale=True)
    assert scaled[0, 0].item() == pytest.approx(-4 / np.std([-4, -2, 0, 2, 7, 5]), rel=1e-5)


def test_where_the_policy_ends_the_dialogue_the_baseline_is_right_on_average_and_one_by_turn_is_not():
    """Asking on is worth +1, stopping -1; who asks on has another turn, whose credit is 0.5 on average.

    A baseline from the dialogue's own later turns, or from those that got as far, would depend on the action.
    """
    draw = torch.Generator().manual_seed(0)
    asks = torch.rand(4000, generator=draw) < 0.5
    later = torch.randn(4000, generator=draw) + 0.5  # credit of the second turn, of those that have one
    mask = torch.stack([torch.ones(4000), torch.zeros(4000), asks.float()], 1).long()
    rewards = torch.stack([torch.where(asks, 1.0, -1.0), torch.zeros(4000), later * asks], 1)
    found, _ = turn_advantages(rewards, mask, [str(i // 2) for i in range(4000)], scale=False)
    gain = found[asks, 0].mean() - found[~asks, 0].mean()
    assert gain.item() == pytest.approx(2.0, abs=0.15)
