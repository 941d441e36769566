"""The losses, as pure functions over the log-probs of trained tokens or over the values of turns.

Texts have different lengths and numbers of turns, so tokens are kept flat instead of padded:

    S  trained tokens of all texts of a batch, text after text
    N  texts; in a policy gradient, dialogues
    T  turns, numbered through the batch, so that no two texts share a number
    P  preference pairs (a text may be in several)

Arguments of these names are the same in every function:

    logps       [S] log-probs under the trained model
    reference   [S] log-probs under the reference model
    text        int64 [S], the text of each token, in 0..N-1
    turn        int64 [S], the turn of each token, in 0..T-1
    texts       N
    values      [T], the value of each turn
    value_text  int64 [T], the text of each value
    pairs       int64 [P, 2], the texts (chosen, rejected) of each pair

A function that ends a batch returns the sum of the losses of its items (pairs, dialogues or tokens) and, for the log,
sums over the items of other figures by name.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from sweet_rl.log_probs.length_normalization import sum_by_text, token_weights
from sweet_rl.training.settings import PolicyGradientSettings, PreferenceSettings


def log_ratios(logps: Tensor, reference: Tensor, text: Tensor, turn: Tensor, texts: int, normalize: str) -> Tensor:
    """Normalised log-ratio [N] of every text: sum over tokens of weight * (log pi_theta - log pi_ref).

    With "turn" it is the sum over turns of the advantage A (equation 2).

    Args:
        normalize: see length_normalization.token_weights.
    """
    weights = token_weights(text, turn, normalize, logps.dtype)
    return sum_by_text(weights * (logps - reference), text, texts)


def dpo_loss(chosen_ratios: Tensor, rejected_ratios: Tensor, beta: float, label_smoothing: float = 0.0) -> Tensor:
    """-log sigmoid(beta * chosen - beta * rejected) per pair (equations 2 and 4).

    Args:
        chosen_ratios: [P], the log-ratio of each pair's chosen text.
        rejected_ratios: [P], that of the rejected text.
        beta: scale of the log-ratios.
        label_smoothing: weight of the loss with chosen and rejected exchanged (conservative DPO).

    Returns:
        [P].
    """
    margins = beta * (chosen_ratios - rejected_ratios)
    if not label_smoothing:
        return -F.logsigmoid(margins)
    return -(1 - label_smoothing) * F.logsigmoid(margins) - label_smoothing * F.logsigmoid(-margins)


def ipo_loss(chosen_ratios: Tensor, rejected_ratios: Tensor, beta: float) -> Tensor:
    """(chosen - rejected - 1 / (2 beta))^2 per pair (Azar et al. 2023, equation 17). Shapes as of `dpo_loss`."""
    return (chosen_ratios - rejected_ratios - 1 / (2 * beta)).square()


def expected_first_loss(how: PreferenceSettings) -> float:
    """The mean `preference_loss` of a policy that equals its reference: all log-ratios are 0."""
    return 1 / (4 * how.beta**2) if how.ipo else math.log(2)


def nll_loss(logps: Tensor, text: Tensor, texts: int) -> Tensor:
    """Mean negative log-likelihood of each text's trained tokens, [S] -> [N].

    Prompt tokens are not among the S tokens and so never in it. A text without a token gives 0.
    """
    lengths = torch.bincount(text, minlength=texts).clamp(min=1).to(logps.dtype)
    return -sum_by_text(logps, text, texts) / lengths


def _pair_figures(chosen: Tensor, rejected: Tensor) -> dict[str, Tensor]:
    """Sums for the log from the scaled scores [P] of each pair's texts."""
    return {
        "margin": (chosen - rejected).sum(),
        "accuracy": (chosen > rejected).float().sum(),
        "chosen_reward": chosen.sum(),
        "rejected_reward": rejected.sum(),
    }


def preference_losses(
    logps: Tensor, reference: Tensor, text: Tensor, turn: Tensor, texts: int, pairs: Tensor, how: PreferenceSettings
) -> tuple[Tensor, dict[str, Tensor]]:
    """DPO or IPO with the NLL of the chosen texts (equations 2 and 4), summed over pairs.

    Args:
        how: the loss of a pair, its beta, the weight of the NLL, and the length normalisation.
    """
    ratios = log_ratios(logps, reference, text, turn, texts, how.normalization)
    chosen, rejected = ratios[pairs[:, 0]], ratios[pairs[:, 1]]
    if how.ipo:
        loss = ipo_loss(chosen, rejected, how.beta).sum()
    else:
        loss = dpo_loss(chosen, rejected, how.beta, how.label_smoothing).sum()
    nll = nll_loss(logps, text, texts)[pairs[:, 0]].sum()
    figures = {"preference_loss": loss, "nll": nll} | _pair_figures(how.beta * chosen, how.beta * rejected)
    return (loss + how.nll_loss_coef * nll if how.nll_loss_coef else loss), figures


def value_preference_losses(
    values: Tensor, value_text: Tensor, texts: int, pairs: Tensor, beta: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Bradley-Terry on the scores of texts, summed over pairs. A text's score is beta times the sum of its values."""
    scores = beta * sum_by_text(values, value_text, texts)
    chosen, rejected = scores[pairs[:, 0]], scores[pairs[:, 1]]
    return dpo_loss(chosen, rejected, 1.0).sum(), _pair_figures(chosen, rejected)


def value_classification_losses(values: Tensor, value_text: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean over a text's turns of the cross-entropy of (label, sigmoid of the value), summed over texts.

    `labels` [N] are 1 for success and 0 for none. The logged accuracy is that of the mean value of each text.
    """
    counts = torch.bincount(value_text, minlength=len(labels)).to(values.dtype)
    labels = labels.to(values.dtype)
    losses = F.binary_cross_entropy_with_logits(values, labels[value_text], reduction="none")
    loss = (sum_by_text(losses, value_text, len(labels)) / counts).sum()
    scores = sum_by_text(values, value_text, len(labels)) / counts
    return loss, {
        "accuracy": ((scores > 0) == (labels > 0.5)).float().sum(),
        "predicted": scores.sigmoid().sum(),
        "succeeded": labels.sum(),
    }


def imitation_losses(logps: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum of the negative log-probs [S] of the trained tokens; every token counts the same."""
    loss = -logps.sum()
    return loss, {"nll": loss}


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
