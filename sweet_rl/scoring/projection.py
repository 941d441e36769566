"""The vocabulary projection, only for the positions that are scored and in chunks.

The projection of a model is replaced while the model runs. So whatever wraps the model (DDP, DeepSpeed, an adapter, a
checkpointing context) stays in place, and nothing is computed for positions that are not scored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 2**25  # logits in memory at a time: 128 MB of float32
# Families that do not change the logits after the projection, so that log-probs may take their place.
PLAIN_HEADS = frozenset({"gemma", "gemma3_text", "gpt_neox", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3"})


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The Hugging Face model inside DDP or a DeepSpeed engine."""
    return getattr(model, "module", model)


@contextlib.contextmanager
def projection_replaced(model: torch.nn.Module, by: Callable[[Callable, Tensor], Tensor]) -> Iterator[None]:
    """While open, the model's `logits` are `by(projection, hidden)` with hidden [R, L, H]; `projection` is the
    module's own forward."""
    head = unwrapped(model).get_output_embeddings()
    projection = head.forward
    had = "forward" in vars(head)
    head.forward = lambda hidden: by(projection, hidden)
    try:
        yield
    finally:
        if had:
            head.forward = projection
        else:
            del head.forward


def token_logps(logits: Tensor, targets: Tensor) -> Tensor:
    """logits [S, V], targets int64 [S] -> log-probs [S], float32, or float64 if the logits are."""
    if logits.dtype != torch.float64:
        logits = logits.float()
    return logits.gather(-1, targets.to(logits.device)[:, None])[:, 0] - logits.logsumexp(-1)


def chunked_logps(
    projection: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, vocabulary: int
) -> Tensor:
    """hidden [S, H], targets [S] -> log-probs [S], with at most CHUNK_ELEMENTS logits in memory at a time.

    The logits of more than one chunk are not kept for the backward pass but computed again there.
    """
    size = max(1, CHUNK_ELEMENTS // vocabulary)
    if len(hidden) <= size:
        return token_logps(projection(hidden), targets)

    def score(part: Tensor, wanted: Tensor) -> Tensor:
        return token_logps(projection(part), wanted)

    chunks = zip(hidden.split(size), targets.split(size), strict=True)
    if not torch.is_grad_enabled():
        return torch.cat([score(*chunk) for chunk in chunks])
    return torch.cat([checkpoint(score, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks])


def has_plain_head(model: torch.nn.Module) -> bool:
    """Whether the model's logits are the unchanged output of its projection."""
    config = unwrapped(model).config
    return config.model_type in PLAIN_HEADS and not getattr(config, "final_logit_softcapping", None)
