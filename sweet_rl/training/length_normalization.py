"""Length normalisation: the weight of each token's log-prob in the sum of its text.

The names are those of `--normalize`. `token_weights` is used in training, where a text has many turns and tokens are
kept flat (S trained tokens of a batch, text after text). Ranking scores one turn at a time: method/advantage.py.
"""

from __future__ import annotations

import torch
from torch import Tensor


def token_weights(text_of_token: Tensor, turn_of_token: Tensor, normalize: str, dtype: torch.dtype) -> Tensor:
    """Weight of each trained token in its text's sum.

    Args:
        text_of_token: int64 [S], numbered from 0.
        turn_of_token: int64 [S], numbered through the batch, so that no two texts share a number.
        normalize:
            "turn": 1 / tokens of the token's turn. The text's sum is a sum over turns of per-turn means (the paper's
            critic, equation 2).
            "trajectory": 1 / trained tokens of the token's text. The text's sum is one mean over the dialogue (the
            released critic).
            "none": 1. The text's sum is its summed log-prob (plain DPO, equation 4).
        dtype: Data type of the result.

    Returns:
        [S] of `dtype`.

    Raises:
        ValueError: `normalize` is any other name.
    """
    if normalize == "none":
        return text_of_token.new_ones(text_of_token.shape, dtype=dtype)
    if normalize not in ("trajectory", "turn"):
        raise ValueError(f"normalize must be trajectory, turn or none; found {normalize!r}")
    unit = turn_of_token if normalize == "turn" else text_of_token
    return 1.0 / unit.bincount()[unit].to(dtype)
