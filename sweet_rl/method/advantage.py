"""The turn-wise advantage of SWEET-RL (equation 3 of the paper), and the ranking of candidates by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

TurnNormalize = Literal["turn", "none"]
"""Mean over the tokens of a turn, or their sum."""


def advantage(critic: np.ndarray, reference: np.ndarray | Sequence[float] | float, normalize: str = "turn") -> float:
    """A(o_t, a_t, c) = 1/L * sum over the turn's L tokens of log pi_theta(a|o,c) - log pi_ref(a|o,c).

    Args:
        critic: Log-probs of the turn's tokens under the critic: [L]. The EOS is included if it was produced.
        reference: log pi_ref(a|o), or with `--reference seed` (a|o,c): [L], [L'] for another tokenizer, or one mean.
        normalize: "turn" divides by L, "none" does not.

    Returns:
        The advantage. With "none", a scalar reference is multiplied by L.

    Raises:
        ValueError: The turn has no tokens, or `normalize` is not known.
    """
    own = np.asarray(critic, dtype=np.float64)
    other = np.asarray(reference, dtype=np.float64)
    if own.size == 0 or other.size == 0:
        raise ValueError("a turn without tokens has no advantage")
    if normalize not in get_args(TurnNormalize):
        raise ValueError(f"normalize must be turn or none; found {normalize!r}")
    if normalize == "none":
        return float(own.sum() - (other.sum() if other.ndim else other * own.size))
    return float(own.mean() - other.mean())


def order_by_score(scores: Sequence[float]) -> list[int]:
    """Indices of the finite scores, highest first; equal scores keep their order."""
    return sorted(range(len(scores)), key=lambda i: -scores[i])
