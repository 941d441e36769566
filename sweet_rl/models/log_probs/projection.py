"""The vocabulary projection, only for the positions that are scored and in chunks.

The projection of a model is replaced while the model runs. So whatever wraps the model (DDP, DeepSpeed, an adapter, a
checkpointing context) stays in place, and nothing is computed for positions that are not scored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.torch_version import TorchVersion
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

CHUNK_ELEMENTS = 2**25  # logits in memory at a time: 128 MB of float32
CHUNK_TOKENS = 1024  # the least number at a time: fewer rows leave a GPU waiting for the projection's weights
# Families that do not change the logits after the projection, so that log-probs may take their place.
PLAIN_HEADS = frozenset({"gemma", "gemma3_text", "gpt_neox", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3"})


def unwrapped(model: torch.nn.Module) -> PreTrainedModel:
    """Return the Hugging Face model inside DDP or a DeepSpeed engine."""
    inner: Any = getattr(model, "module", model)
    return inner


class _WideProduct(torch.autograd.Function):
    """hidden [S, H] @ weight [V, H].T, both of one reduced precision, as float32; gradients as of a plain product.

    A plain product in bfloat16 rounds the logits: by up to 1/16 if they are between 16 and 32.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        if hidden.is_cuda and torch.__version__ >= TorchVersion("2.8"):
            return torch.mm(hidden, weight.t(), out_dtype=torch.float32)
        return hidden.float() @ weight.float().t()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        hidden, weight = ctx.saved_tensors
        gradient = gradient.to(hidden.dtype)
        return gradient @ weight, gradient.t() @ hidden if ctx.needs_input_grad[1] else None


def wide_projection(head: torch.nn.Module, projection: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The projection of hidden states [S, H] with logits [S, V] that are not rounded to a reduced precision.

    `projection` is the forward function of `head`. If that is not a plain linear layer (adapter, 4 bits, moved by
    accelerate), its own precision is kept.
    """
    if type(head) is not torch.nn.Linear or hasattr(head, "_hf_hook"):
        return projection
    device = head.weight.device.type
    reduced = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else head.weight.dtype
    if reduced.itemsize > 2:
        return projection
    weight = head.weight.to(reduced)

    def project(hidden: Tensor) -> Tensor:
        with torch.autocast(device, enabled=False):
            logits = _WideProduct.apply(hidden.to(weight), weight)
            return logits if head.bias is None else logits + head.bias

    return project


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


def chunk_size(vocabulary: int) -> int:
    """Number of tokens whose logits are in memory at a time."""
    return max(CHUNK_TOKENS, CHUNK_ELEMENTS // vocabulary)


def chunked_logps(projection: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, vocabulary: int) -> Tensor:
    """hidden [S, H], targets [S] -> log-probs [S], with the logits of `chunk_size` tokens in memory at a time.

    The logits of more than one chunk are not kept for the backward pass but computed again there.
    """
    size = chunk_size(vocabulary)
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
