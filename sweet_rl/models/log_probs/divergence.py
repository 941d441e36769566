"""Log-probs of trained tokens, and the divergence of their whole distributions from those of a frozen model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sweet_rl.models.log_probs.logps import run_rows, scored_positions
from sweet_rl.models.log_probs.projection import (
    chunk_size,
    has_plain_head,
    projection_replaced,
    unwrapped,
    wide_projection,
)
from sweet_rl.runs.errors import UserError


def logps_and_kl(frozen: torch.nn.Module, model: torch.nn.Module, batch: dict[str, Any]) -> Tensor:
    """[S, 2]: log-prob of each trained token, and KL(pi_ref || pi_theta) of the distribution that it is drawn from.

    The logits of both models are computed chunk by chunk, as by `chunked_logps`. Raises UserError if a model changes
    the logits behind its vocabulary projection.
    """
    for one in (frozen, model):
        if not has_plain_head(one):
            kind = unwrapped(one).config.model_type
            raise UserError(f"the divergence is not computed for {kind}, which changes its logits: --kl_coef 0.")
    own_head, frozen_head = (unwrapped(one).get_output_embeddings() for one in (model, frozen))
    of_frozen = wide_projection(frozen_head, frozen_head.forward)

    def hidden_states(_: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        return scored_positions(hidden, batch)[None]

    with torch.no_grad(), projection_replaced(frozen, hidden_states):
        reference = run_rows(frozen, batch)[0]

    def compared(own: Tensor, other: Tensor, targets: Tensor) -> Tensor:
        wide = (one if one.dtype == torch.float64 else one.float() for one in (own, other))
        own, other = (one.log_softmax(-1) for one in wide)
        kl = (other.exp() * (other - own)).sum(-1)
        return torch.stack([own.gather(1, targets[:, None])[:, 0], kl], dim=1)

    def score(projection: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        project = wide_projection(own_head, projection)

        def chunk(part: Tensor, other: Tensor, targets: Tensor) -> Tensor:
            with torch.no_grad():
                known = of_frozen(other)
            return compared(project(part), known, targets)

        own, size = scored_positions(hidden, batch), chunk_size(unwrapped(model).config.vocab_size)
        chunks = zip(own.split(size), reference.split(size), batch["targets"].split(size), strict=True)
        parts = [checkpoint(chunk, *one, use_reentrant=False, preserve_rng_state=False) for one in chunks]
        return torch.cat(parts)[None]

    with projection_replaced(model, score):
        return run_rows(model, batch)[0]
