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
