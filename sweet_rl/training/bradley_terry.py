"""The Bradley-Terry loss on pairs (equations 2 and 4) and its variants.

Pure functions. A pair's loss is -log sigmoid(score of chosen - score of rejected); a text's score is its normalised
log-ratio (DPO) or the sum of the values of its turns (value head).

Texts have different lengths and numbers of turns, so tokens are kept flat instead of padded:

    S  trained tokens of all texts of a batch, text after text
    N  texts
    T  turns, numbered through the batch, so that no two texts share a number
    P  preference pairs (a text may be in several)

Arguments of these names are the same in every function:

    logps           [S] log-probs under the trained model
    reference       [S] log-probs under the reference model
    text_of_token   int64 [S], in 0..N-1
    turn_of_token   int64 [S], in 0..T-1
    text_of_value   int64 [T], in 0..N-1
    num_texts       N
    values          [T], the value of each turn
    pairs           int64 [P, 2], the texts (chosen, rejected) of each pair
    normalize       turn, trajectory or none (`token_weights`)

`preference_losses` and `value_preference_losses` return the sum of the losses of a batch's pairs, and for the log
{figure: sum over the pairs}.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sweet_rl.models.log_probs.rows import sum_by_text
from sweet_rl.training.settings import PreferenceSettings


def token_weights(text_of_token: Tensor, turn_of_token: Tensor, normalize: str, dtype: torch.dtype) -> Tensor:
    """Weight [S] of each trained token in the sum of its text: the length normalisation.

    Args:
        normalize:
            "turn": 1 / tokens of the token's turn. The text's sum is a sum over turns of per-turn means (the paper's
            critic, equation 2).
            "trajectory": 1 / trained tokens of the token's text. The text's sum is one mean over the dialogue (the
            released critic).
            "none": 1. The text's sum is its summed log-prob (plain DPO, equation 4).
        dtype: Data type of the result.
    """
    if normalize == "none":
        return text_of_token.new_ones(text_of_token.shape, dtype=dtype)
    unit = {"turn": turn_of_token, "trajectory": text_of_token}[normalize]
    return 1.0 / unit.bincount()[unit].to(dtype)


def log_ratios(
    logps: Tensor, reference: Tensor, text_of_token: Tensor, turn_of_token: Tensor, num_texts: int, normalize: str
) -> Tensor:
    """Normalised log-ratio [N] of every text: sum over tokens of weight * (log pi_theta - log pi_ref).

    With "turn" it is the sum over turns of the advantage A (equation 2).
    """
    weights = token_weights(text_of_token, turn_of_token, normalize, logps.dtype)
    return sum_by_text(weights * (logps - reference), text_of_token, num_texts)


def dpo_loss(chosen_ratios: Tensor, rejected_ratios: Tensor, beta: float, label_smoothing: float = 0.0) -> Tensor:
    """The loss [P] of each pair: -log sigmoid(beta * chosen - beta * rejected).

    With log-ratios normalised by "turn" it is equation 2, with "none" equation 4.

    Args:
        chosen_ratios: [P], the log-ratio of each pair's chosen text.
        rejected_ratios: [P], the log-ratio of the rejected text.
        beta: scale of the log-ratios.
        label_smoothing: weight of the loss with chosen and rejected exchanged (conservative DPO).
    """
    margins = beta * (chosen_ratios - rejected_ratios)
    if not label_smoothing:
        return -F.logsigmoid(margins)
    return -(1 - label_smoothing) * F.logsigmoid(margins) - label_smoothing * F.logsigmoid(-margins)


def ipo_loss(chosen_ratios: Tensor, rejected_ratios: Tensor, beta: float) -> Tensor:
    """(chosen - rejected - 1 / (2 beta))^2 per pair (Azar et al. 2023, equation 17). Shapes as of `dpo_loss`."""
    return (chosen_ratios - rejected_ratios - 1 / (2 * beta)).square()


def nll_loss(logps: Tensor, text_of_token: Tensor, num_texts: int) -> Tensor:
    """Mean negative log-likelihood of each text's trained tokens, [S] -> [N]; 0 for a text without one."""
    lengths = torch.bincount(text_of_token, minlength=num_texts).clamp(min=1).to(logps.dtype)
    return -sum_by_text(logps, text_of_token, num_texts) / lengths


def _pair_figures(chosen: Tensor, rejected: Tensor) -> dict[str, Tensor]:
    """Sums for the log of the scores [P] of each pair's texts. The "rewards" are these, not those of dialogues."""
    return {
        "margin": (chosen - rejected).sum(),
        "accuracy": (chosen > rejected).float().sum(),
        "chosen_reward": chosen.sum(),
        "rejected_reward": rejected.sum(),
    }


def preference_losses(
    logps: Tensor,
    reference: Tensor,
    text_of_token: Tensor,
    turn_of_token: Tensor,
    num_texts: int,
    pairs: Tensor,
    how: PreferenceSettings,
) -> tuple[Tensor, dict[str, Tensor]]:
    """DPO or IPO with the NLL of the chosen texts (equations 2 and 4), summed over pairs."""
    ratios = log_ratios(logps, reference, text_of_token, turn_of_token, num_texts, how.normalization)
    chosen, rejected = ratios[pairs[:, 0]], ratios[pairs[:, 1]]
    if how.ipo:
        loss = ipo_loss(chosen, rejected, how.beta).sum()
    else:
        loss = dpo_loss(chosen, rejected, how.beta, how.label_smoothing).sum()
    nll = nll_loss(logps, text_of_token, num_texts)[pairs[:, 0]].sum()
    figures = {"preference_loss": loss, "nll": nll} | _pair_figures(how.beta * chosen, how.beta * rejected)
    return (loss + how.nll_loss_coef * nll if how.nll_loss_coef else loss), figures


def kl_penalty(
    kl: Tensor, text_of_token: Tensor, turn_of_token: Tensor, num_texts: int, pairs: Tensor, normalize: str
) -> Tensor:
    """The sum over pairs of the KL of both texts, weighted as their log-ratios are. Not in the paper.

    Equation 2 does not fix a turn's mean log-ratio over all messages, -KL(pi_ref || pi_theta). A critic can lower all
    of them after a reply that tells how the dialogue ends; the KL makes that costly (docs/results.md).

    Args:
        kl: [S], KL(pi_ref || pi_theta) of the distribution of each trained token.
    """
    weights = token_weights(text_of_token, turn_of_token, normalize, kl.dtype)
    return sum_by_text(weights * kl, text_of_token, num_texts)[pairs].sum()


def value_preference_losses(
    values: Tensor, text_of_value: Tensor, num_texts: int, pairs: Tensor, beta: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Bradley-Terry on the scores of texts, summed over pairs. A text's score is beta times the sum of its values."""
    scores = beta * sum_by_text(values, text_of_value, num_texts)
    chosen, rejected = scores[pairs[:, 0]], scores[pairs[:, 1]]
    return dpo_loss(chosen, rejected, 1.0).sum(), _pair_figures(chosen, rejected)
