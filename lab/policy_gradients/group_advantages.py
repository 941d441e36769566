"""Advantages without a value function: each dialogue against its siblings, each of its turns by a critic's credit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweet_rl.models.log_probs.rows import group_indices


def group_advantages(rewards: Sequence[float], groups: Sequence[str], divide_by_std: bool = True) -> np.ndarray:
    """(reward - mean of its group) / standard deviation of its group (GRPO; Shao et al. 2024, section 4.1.2).

    Args:
        rewards: Reward of each dialogue.
        groups: Task of each dialogue.
        divide_by_std: Whether to divide by the standard deviation of the group (with n in its denominator); False
            gives the distance from the mean (Dr. GRPO, Liu et al. 2025).

    Returns:
        float64 [N]; 0 for all members of a group whose rewards are equal, as in a group of one.
    """
    values, advantages = np.asarray(rewards, dtype=np.float64), np.zeros(len(rewards))
    for members in group_indices(groups):
        own = values[members]
        if own.max() > own.min():
            advantages[members] = (own - own.mean()) / (own.std() if divide_by_std else 1.0)
    return advantages


def turn_weights(
    credit: Sequence[Sequence[float]],
    tokens: Sequence[Sequence[int]],
    groups: Sequence[str],
    advantages: Sequence[float],
    strength: float,
) -> list[np.ndarray]:
    """The weight of each turn: a turn with more credit gets more of a good outcome and less of a bad one.

    With the critic's score A of turn t of dialogue i, n its trained tokens, G the dialogue's group, and R_i the
    dialogue's advantage:

        z_it = (A_it - mean of A over the turns of G) / standard deviation of A over the turns of G
        w_it = 1 + strength * sign(R_i) * (tanh z_it - sum_u n_iu tanh z_iu / sum_u n_iu)

    tanh lies between -1 and 1, and so does its mean over a dialogue. Therefore w lies between 1 - 2 strength and 1 + 2
    strength: with a strength of at most 0.5 no weight is negative, and no turn gets a gradient against its outcome. The
    mean weight over a dialogue's tokens is 1. The weights are numbers, not functions of the policy.

    Args:
        credit: Scores of each dialogue's turns.
        tokens: Number of trained tokens of each dialogue's turns.
        groups: Task of each dialogue.
        advantages: Advantage of each dialogue.
        strength: Largest effect of the credit, at most 0.5; 0 gives weights of 1.

    Returns:
        For each dialogue float64 [turns]. Where all scores of a group are equal, 1.
    """
    weights: list[np.ndarray] = [np.empty(0)] * len(credit)
    for members in group_indices(groups):
        scores = np.concatenate([np.asarray(credit[i], dtype=np.float64) for i in members])
        spread = scores.std() if scores.max() > scores.min() else np.inf
        for i in members:
            squashed = np.tanh((np.asarray(credit[i], dtype=np.float64) - scores.mean()) / spread)
            centred = squashed - np.average(squashed, weights=tokens[i])
            weights[i] = 1 + strength * np.sign(advantages[i]) * centred
    return weights
