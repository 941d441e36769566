"""The clipped policy-gradient loss (PPO, GRPO and their relatives), as pure functions.

Tokens are kept flat instead of padded: S is the number of trained tokens of all dialogues of a batch.

    logps       [S] log-probs under the trained model
    sampled     [S] log-probs under the policy that sampled the tokens
    reference   [S] log-probs under the reference model
    text        int64 [S], the dialogue of each token
"""

from __future__ import annotations

import torch
from torch import Tensor

from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.training.length_normalization import token_weights


def clipped_surrogate(logps: Tensor, sampled: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """-min(r A, clip(r, 1 - low, 1 + high) A) per token, with r = pi_theta / pi_old (Schulman et al. 2017, equation 7).

    Args:
        sampled: [S] log-probs under the policy that sampled the tokens.
        advantages: [S], the advantage A of each token.
        low: how far below 1 a ratio still has a gradient.
        high: how far above 1 it has one (DAPO: more than `low`).

    Returns:
        [S].
    """
    ratios = (logps - sampled).exp()
    return -torch.minimum(ratios * advantages, ratios.clamp(1 - low, 1 + high) * advantages)


def kl_estimate(logps: Tensor, other: Tensor) -> Tensor:
    """Estimate of KL(policy || other) from tokens of the policy, per token: r - 1 - log r with r = other / policy.

    It is unbiased and never negative (estimator k3 of Schulman 2020, used in GRPO; Shao et al. 2024, equation 4).
    `other` are [S] log-probs under the other model.
    """
    difference = other - logps
    return torch.expm1(difference) - difference


def policy_gradient_losses(
    logps: Tensor,
    sampled: Tensor,
    advantages: Tensor,
    text: Tensor,
    how: PolicyGradientSettings,
    reference: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The clipped surrogate with a KL penalty, summed over dialogues or, with `how.aggregation` "token", over tokens.

    A dialogue's loss is the mean over its tokens ("dialogue", GRPO) or their sum divided by `how.loss_tokens`
    ("constant", Dr. GRPO), so that the gradient of a token does not depend on the dialogue's length.

    Args:
        sampled: [S] log-probs under the policy that sampled the tokens.
        advantages: [S], the dialogue's advantage times the weight of the token's turn.
        how: clipping, aggregation and the weight of the KL penalty.
        reference: None without a penalty.
    """
    by_token = how.aggregation == "token"
    mean = torch.ones_like(logps) if by_token else token_weights(text, text, "trajectory", logps.dtype)
    losses = clipped_surrogate(logps, sampled, advantages, how.clip_low, how.clip_high)
    ratios = (logps - sampled).detach().exp()
    clipped = torch.where(advantages > 0, ratios > 1 + how.clip_high, ratios < 1 - how.clip_low)
    figures = {"sampling_kl": (mean * kl_estimate(logps, sampled)).sum(), "clipped": (mean * clipped).sum()}
    if reference is not None:
        penalty = kl_estimate(logps, reference)
        figures["reference_kl"] = (mean * penalty).sum()
        losses = losses + how.kl_coef * penalty
    weighted = losses / how.loss_tokens if how.aggregation == "constant" else mean * losses
    return weighted.sum(), figures
