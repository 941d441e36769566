"""Log-probs of trained tokens, and the divergence of their whole distributions from those of a frozen model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sweet_rl.models.log_probs.logps import by_rope, run_rows, scored_positions
from sweet_rl.models.log_probs.projection import (
    chunk_size,
    has_plain_head,
    projection_replaced,
    unwrapped,
    wide_projection,
)


def logps_and_kl(frozen: torch.nn.Module, model: torch.nn.Module, batch: dict[str, Any]) -> Tensor:
    """[S, 2]: log-prob of each trained token, and KL(pi_ref || pi_theta) of the distribution that it is drawn from.

    The logits of both models are computed chunk by chunk, as by `chunked_logps`, if both have a plain head.

    Args:
        frozen: Reference model, whole in this process.
        model: Trained model.
        batch: Batch of `rows.lay_out`.
    """

    each = ("columns", "targets")

    def one_rope(part: dict[str, Any]) -> Tensor:
        return by_rope(frozen, part, part["rows"], each, lambda equal: _logps_and_kl(frozen, model, equal))

    return by_rope(model, batch, batch["rows"], each, one_rope)


def _logps_and_kl(frozen: torch.nn.Module, model: torch.nn.Module, batch: dict[str, Any]) -> Tensor:
    targets = batch["targets"]
    plain = has_plain_head(model) and has_plain_head(frozen)

    def compared(own: Tensor, reference: Tensor, wanted: Tensor) -> Tensor:
        own, reference = (
            (one if one.dtype == torch.float64 else one.float()).log_softmax(-1) for one in (own, reference)
        )
        kl = (reference.exp() * (reference - own)).sum(-1)
        return torch.stack([own.gather(1, wanted[:, None])[:, 0], kl], dim=1)

    def seen(projection: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        states = scored_positions(hidden, batch)
        return (states if plain else projection(states))[None]

    with torch.no_grad(), projection_replaced(frozen, seen):
        reference = run_rows(frozen, batch)[0]  # hidden states, or logits if the head is not plain
    if not plain:
        with projection_replaced(model, seen):
            return compared(run_rows(model, batch)[0], reference, targets)

    own_head, frozen_head = (unwrapped(one).get_output_embeddings() for one in (model, frozen))
    of_frozen = wide_projection(frozen_head, frozen_head.forward)

    def score(projection: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        project = wide_projection(own_head, projection)

        def chunk(part: Tensor, other: Tensor, wanted: Tensor) -> Tensor:
            with torch.no_grad():
                known = of_frozen(other)
            return compared(project(part), known, wanted)

        own, size = scored_positions(hidden, batch), chunk_size(unwrapped(model).config.vocab_size)
        chunks = zip(own.split(size), reference.split(size), targets.split(size), strict=True)
        parts = [checkpoint(chunk, *one, use_reentrant=False, preserve_rng_state=False) for one in chunks]
        return torch.cat(parts)[None]

    with projection_replaced(model, score):
        return run_rows(model, batch)[0]
