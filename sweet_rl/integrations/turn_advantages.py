"""Advantages of tokens from the credit of turns, for trainers whose batches are padded tensors of dialogues."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def turns_of_mask(response_mask: Tensor) -> Tensor:
    """The turn of each of the agent's tokens: [B, R] of 0 and 1 -> int64 [B, R], numbered from 0; -1 elsewhere.

    A turn is a run of ones: between two turns are the tokens of the human's reply.
    """
    own = response_mask.bool()
    begins = own & ~F.pad(own, (1, 0))[:, :-1]
    return torch.where(own, begins.cumsum(1) - 1, -1)


def at_last_tokens(credit: Sequence[float], response_mask: Tensor) -> Tensor:
    """Each turn's credit at its last token, float32 [R]; credit of turns that the mask no longer holds is dropped."""
    turns = turns_of_mask(response_mask[None])[0]
    scores = torch.zeros(len(turns), device=turns.device)
    for turn, value in enumerate(credit):
        places = (turns == turn).nonzero()
        if len(places):
            scores[places[-1]] = value
    return scores


@torch.no_grad()
def turn_advantages(
    token_level_rewards: Tensor, response_mask: Tensor, index: Sequence | np.ndarray, scale: bool
) -> tuple[Tensor, Tensor]:
    """Every token of a turn gets the turn's credit minus a baseline.

    The baseline of a dialogue is the mean credit of all turns of the *other* dialogues of its prompt (0 without any).
    It does not depend on this dialogue. A mean per turn number would be biased: which dialogues get that far depends on
    the policy. Nothing is summed over later turns: the credit of a turn is an advantage already.

    Args:
        token_level_rewards: [B, R]; the sum over a turn is its credit.
        response_mask: [B, R], 1 for the agent's tokens.
        index: [B], the prompt of each dialogue.
        scale: Whether to divide by the standard deviation over all turns of the batch.

    Returns:
        Advantages [B, R] and returns [B, R], the credit without the baseline; 0 outside of the agent's tokens.
    """
    turns = turns_of_mask(response_mask)
    own, count = turns >= 0, int(turns.max()) + 1
    places = turns.clamp(min=0)
    shape = len(turns), max(count, 1)
    rewards = token_level_rewards * own
    credit = rewards.new_zeros(shape).scatter_add_(1, places, rewards)
    spoken = torch.arange(shape[1], device=turns.device) <= turns.max(dim=1, keepdim=True).values
    groups = torch.as_tensor(np.unique(index, return_inverse=True)[1], device=turns.device)
    same = (groups[:, None] == groups).to(credit.dtype).fill_diagonal_(0)
    others = (same @ spoken.to(credit.dtype).sum(1)).clamp(min=1)
    advantages = credit - (same @ credit.sum(1) / others)[:, None]
    if scale:
        spread = advantages[spoken].std(unbiased=False) if spoken.any() else advantages.new_zeros(())
        advantages = advantages / (spread + 1e-6)
    return advantages.gather(1, places) * own, credit.gather(1, places) * own
