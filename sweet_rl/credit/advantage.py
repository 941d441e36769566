"""The turn-wise advantage of SWEET-RL (equation 2 of the paper), and the ranking of candidates by it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sweet_rl.scoring.length_normalization import NORMALIZE


def advantage(
    critic: np.ndarray, reference: np.ndarray | Sequence[float] | float, normalize: str = "turn"
) -> float:
    """A(o_t, a_t, c) = 1/L * sum over the turn's L tokens of log pi_theta(a|o,c) - log pi_ref(a|o,c).

    Args:
        critic: log-probs of the turn's tokens under the critic: [L]. The EOS is included if it was produced.
        reference: the same under the reference model: [L]. From another tokenizer they are [L'], or their mean.
        normalize: one of scoring.length_normalization.NORMALIZE. "turn" and "trajectory" divide by L: they differ only
            for a text of several turns. "none" does not divide.

    Returns:
        The advantage. With "none" and a mean as `reference`, the mean counts L times.

    Raises:
        ValueError: the turn has no tokens, or `normalize` is not known.
    """
    own = np.asarray(critic, dtype=np.float64)
    other = np.asarray(reference, dtype=np.float64)
    if own.size == 0 or other.size == 0:
        raise ValueError("a turn without tokens has no advantage")
    if normalize == "none":
        return float(own.sum() - (other.sum() if other.ndim else other * own.size))
    if normalize not in NORMALIZE:
        raise ValueError(f"normalize must be one of {', '.join(NORMALIZE)}; found {normalize!r}")
    return float(own.mean() - other.mean())


def order_by_score(scores: Sequence[float]) -> list[int]:
    """Indices of the scores, highest first; equal scores keep their order. Raises ValueError if one is NaN."""
    if any(math.isnan(score) for score in scores):
        raise ValueError("a score is not a number")
    return sorted(range(len(scores)), key=lambda i: -scores[i])
