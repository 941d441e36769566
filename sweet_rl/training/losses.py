"""The losses, as pure functions over the log-probs of trained tokens.

Texts have different lengths and numbers of turns, so tokens are kept flat instead of padded:

    S  trained tokens of all texts of a batch, text after text
    N  texts            text[s] in 0..N-1 says whose token s is
    T  turns            turn[s] in 0..T-1 says which turn's; numbered through the batch, so that no
                        two texts share a number
    P  preference pairs (a text may be in several)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sweet_rl.scoring.length_normalization import sum_by_text, token_weights


def log_ratios(
    policy_logps: Tensor, reference_logps: Tensor, text: Tensor, turn: Tensor, texts: int, normalize: str
) -> Tensor:
    """Normalised log-ratio of every text: sum over tokens of weight * (log pi_theta - log pi_ref).

    policy_logps, reference_logps: [S]. Returns [N]. With "turn" it is the sum over turns of the
    advantage A (equation 3).
    """
    weights = token_weights(text, turn, normalize, policy_logps.dtype)
    return sum_by_text(weights * (policy_logps - reference_logps), text, texts)


def dpo_loss(chosen_ratios: Tensor, rejected_ratios: Tensor, beta: float) -> Tensor:
    """-log sigmoid(beta * chosen - beta * rejected) per pair (equations 3 and 4).

    chosen_ratios, rejected_ratios: [P], the log-ratios of each pair's two texts. Returns [P].
    """
    return -F.logsigmoid(beta * (chosen_ratios - rejected_ratios))


def nll_loss(policy_logps: Tensor, text: Tensor, texts: int) -> Tensor:
    """Mean negative log-likelihood of each text's trained tokens, [S] -> [N].

    Prompt tokens are not among the S tokens and so never in it. A text without a token gives 0.
    """
    lengths = torch.bincount(text, minlength=texts).clamp(min=1).to(policy_logps.dtype)
    return -sum_by_text(policy_logps, text, texts) / lengths
