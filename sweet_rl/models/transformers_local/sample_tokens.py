"""One token per row of logits, from one uniform random number per row."""

from __future__ import annotations

import torch


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sample by inverting the cumulative distribution: the token at which it first exceeds the uniform number.

    The token of a row depends on its own logits and its own number only, not on the other rows of the batch.

    Args:
        logits: [rows, vocabulary], any float type; computed in float32, or in float64 if they are.
        uniforms: [rows] in [0, 1), float32.
        temperature: [rows], 0 for greedy rows.
        top_p: [rows], or None if no row cuts its tail.

    Returns:
        tokens: [rows] int64.
        logps: [rows] float32, under the distribution that was sampled from (temperature and top_p applied,
            renormalised); under softmax(logits) in greedy rows.
        margins: [rows], the change of a probability, single or cumulative, below which the token stays the same.
    """
    if logits.dtype != torch.float64:
        logits = logits.float()
    uniforms, temperature = uniforms.to(logits.dtype), temperature.to(logits.dtype)
    greedy = temperature == 0
    any_greedy = bool(greedy.any())
    scale = torch.where(greedy, torch.ones_like(temperature), temperature)
    logps = torch.log_softmax(logits / scale[:, None], dim=-1)
    cut = None
    if top_p is not None:
        logps, cut = _cut_tail(logps, torch.where(greedy, 1, top_p.to(logits.dtype)))
    probabilities = logps.exp()
    cumulative = probabilities.cumsum(dim=-1)
    total = cumulative[:, -1:]
    # Strictly below the total, so that rounding never gives a token behind the last one of positive probability.
    point = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cumulative, point, right=True)
    below = torch.where(tokens > 0, cumulative.gather(1, (tokens - 1).clamp(min=0)), -torch.inf)
    above = torch.where(tokens < logits.shape[-1] - 1, cumulative.gather(1, tokens), torch.inf)
    margins = torch.minimum(point - below, above - point)[:, 0]
    if cut is not None:
        margins = torch.minimum(margins, cut)
    if any_greedy:
        tokens = torch.where(greedy[:, None], logits.argmax(dim=-1, keepdim=True), tokens)
        likeliest = probabilities.topk(2, dim=-1).values
        margins = torch.where(greedy, likeliest[:, 0] - likeliest[:, 1], margins)
    return tokens[:, 0], logps.gather(1, tokens)[:, 0], margins


def _cut_tail(logps: torch.Tensor, top_p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cut to the smallest set of likeliest tokens that reaches top_p.

    Returns:
        logps: Log-probs in the set, [rows, vocabulary].
        margins: [rows], the change of a probability, single or cumulative, below which the set stays the same.
    """
    ordered, order = logps.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.exp()
    before = probabilities.cumsum(dim=-1) - probabilities
    dropped = (before >= top_p[:, None]) & (top_p[:, None] < 1)
    dropped[:, 0] = False
    kept = torch.empty_like(logps).scatter_(1, order, ordered.masked_fill(dropped, float("-inf")))
    step = torch.where(dropped[:, 1:] & ~dropped[:, :-1], probabilities[:, :-1] - probabilities[:, 1:], torch.inf)
    margins = torch.minimum((before[:, 1:] - top_p[:, None]).abs().amin(-1), step.amin(-1))
    return torch.log_softmax(kept, dim=-1), torch.where(top_p < 1, margins, torch.inf)
