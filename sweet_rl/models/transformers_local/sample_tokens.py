"""One token per row of logits, from one uniform random number per row."""

from __future__ import annotations

import torch


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample by inverting the cumulative distribution: the token at which it first exceeds the uniform number.

    The token of a row depends on its own logits and its own number only, not on the other rows of the batch.

    Args:
        logits: [rows, vocabulary], any float type.
        uniforms: [rows] in [0, 1), float32.
        temperature: [rows], 0 for greedy rows.
        top_p: [rows], or None if no row cuts its tail.

    Returns:
        tokens: [rows] int64.
        logps: [rows] float32, under the distribution that was sampled from (temperature and top_p applied,
            renormalised); under softmax(logits) in greedy rows.
    """
    logits = logits.float()
    greedy = temperature == 0
    any_greedy = bool(greedy.any())
    scale = torch.where(greedy, torch.ones_like(temperature), temperature)
    logps = torch.log_softmax(logits / scale[:, None], dim=-1)
    if top_p is not None:
        logps = _cut_tail(logps, torch.where(greedy, torch.ones_like(top_p), top_p))
    cumulative = logps.exp().cumsum(dim=-1)
    total = cumulative[:, -1:]
    # Strictly below the total, so that rounding never gives a token behind the last one of positive probability.
    point = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cumulative, point, right=True)
    if any_greedy:
        tokens = torch.where(greedy[:, None], logits.argmax(dim=-1, keepdim=True), tokens)
    return tokens[:, 0], logps.gather(1, tokens)[:, 0]


def _cut_tail(logps: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Return log-probs, [rows, vocabulary], of the smallest set of likeliest tokens that reaches top_p."""
    ordered, order = logps.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.exp()
    before = probabilities.cumsum(dim=-1) - probabilities
    dropped = (before >= top_p[:, None]) & (top_p[:, None] < 1)
    dropped[:, 0] = False
    kept = torch.empty_like(logps).scatter_(1, order, ordered.masked_fill(dropped, float("-inf")))
    return torch.log_softmax(kept, dim=-1)
