"""The turn-wise advantage of SWEET-RL (equation 3 of the paper), and the ranking of candidates by it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweet_rl.log_probs.length_normalization import TURN_NORMALIZE


def advantage(
    critic: np.ndarray,
    reference: np.ndarray | Sequence[float] | float,
    normalize: str = "turn",
    clip: float | None = None,
    top_tokens: int = 5,
) -> float:
    """A(o_t, a_t, c) = 1/L * sum over the turn's L tokens of log pi_theta(a|o,c) - log pi_ref(a|o,c).

    Args:
        critic: log-probs of the turn's tokens under the critic: [L]. The EOS is included if it was produced.
        reference: the same under the reference model: [L]. From another tokenizer they are [L'], or their mean.
        normalize: one of scoring.length_normalization.TURN_NORMALIZE. "turn" and "trajectory" divide the sum by L: they
            differ only for a text of several turns. "none" does not divide, "sqrt" divides by the square root of L.
            "top" is the mean over the `top_tokens` tokens with the largest absolute log-ratio, the first of equal ones;
            over all tokens if there are fewer.
        clip: the log-ratio of each token is clipped to [-clip, clip] first. None does not clip.
        top_tokens: k of "top".

    Returns:
        The advantage. With "none" or "sqrt" and a mean as `reference`, the mean counts L times.

    Raises:
        ValueError: the turn has no tokens, `normalize` is not known, or "top" or `clip` are to be applied to a
            reference that is not of the same tokens.
    """
    own = np.asarray(critic, dtype=np.float64)
    other = np.asarray(reference, dtype=np.float64)
    if own.size == 0 or other.size == 0:
        raise ValueError("a turn without tokens has no advantage")
    if normalize not in TURN_NORMALIZE:
        raise ValueError(f"normalize must be one of {', '.join(TURN_NORMALIZE)}; found {normalize!r}")
    if by_token(normalize, clip):
        if own.shape != other.shape:
            raise ValueError("top and clip need the reference's log-prob of each token of the critic")
        ratios = own - other if clip is None else np.clip(own - other, -clip, clip)
        if normalize == "top":
            return float(ratios[np.argsort(-np.abs(ratios), kind="stable")[:top_tokens]].mean())
        own, other = ratios, np.zeros(1)
    if normalize in ("none", "sqrt"):
        total = own.sum() - (other.sum() if other.ndim else other * own.size)
        return float(total / np.sqrt(own.size) if normalize == "sqrt" else total)
    return float(own.mean() - other.mean())


def by_token(normalize: str, clip: float | None) -> bool:
    """Whether `advantage` looks at the log-ratio of each token, so that a mean as the reference is not enough."""
    return normalize == "top" or clip is not None


def order_by_score(scores: Sequence[float]) -> list[int]:
    """Indices of the scores, highest first; equal scores keep their order. Raises ValueError if one is NaN."""
    if any(math.isnan(score) for score in scores):
        raise ValueError("a score is not a number")
    return sorted(range(len(scores)), key=lambda i: -scores[i])
