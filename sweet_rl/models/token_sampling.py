"""Drawing one token per row from logits: pure, batched, one uniform number a row."""

from __future__ import annotations

import torch


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws by inverting the cumulative distribution: the token at which it first exceeds the uniform number.

    A row's token depends on its own logits and its own number only, so that neither the other rows of the
    batch nor their order changes it.

    Args:
        logits: [rows, vocabulary], any float type.
        uniforms: [rows] in [0, 1), float32.
        temperature: [rows], 0 for greedy rows.
        top_p: [rows], or None if no row cuts its tail.

    Returns:
        tokens [rows] int64, and [rows] float32 log-probabilities under the distribution drawn from
        (temperature and top_p applied, renormalised); for greedy rows under softmax(logits).
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
    # Strictly below the total, so that rounding never lands behind the last token that can be drawn.
    point = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cumulative, point, right=True)
    if any_greedy:
        tokens = torch.where(greedy[:, None], logits.argmax(dim=-1, keepdim=True), tokens)
    return tokens[:, 0], logps.gather(1, tokens)[:, 0]


def _cut_tail(logps: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keeps the smallest set of likeliest tokens whose probability reaches top_p, renormalised: [rows,
    vocabulary]."""
    ordered, order = logps.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.exp()
    before = probabilities.cumsum(dim=-1) - probabilities
    dropped = (before >= top_p[:, None]) & (top_p[:, None] < 1)
    dropped[:, 0] = False
    kept = torch.empty_like(logps).scatter_(1, order, ordered.masked_fill(dropped, float("-inf")))
    return torch.log_softmax(kept, dim=-1)
