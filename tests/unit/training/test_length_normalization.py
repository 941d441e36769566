"""Weights of tokens against numbers computed by hand."""

from __future__ import annotations

import pytest
import torch

from sweet_rl.training.length_normalization import token_weights

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


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(ValueError, match="word"):
        token_weights(TEXT, TURN, "word", torch.float32)
