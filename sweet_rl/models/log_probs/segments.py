"""Attention over rows by segments on a CPU: no mask is made, and no score computed that would be masked out."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sweet_rl.models.log_probs.rows import Block

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Segments(torch.autograd.Function):
    """Attention by segments: each visible pair (queries, keys) of a block goes through torch's CPU flash kernel.

    The kernel also returns the log-sum-exp of its scores. A completion's two parts are merged by

        lse = logaddexp(lse_prompt, lse_own),  out = out_prompt e^(lse_prompt - lse) + out_own e^(lse_own - lse)

    A part's gradient depends on the other parts only through `out` and `lse`, so the kernel's own backward computes
    it from the merged ones (as in ring attention, arXiv 2310.01889).
    """

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor, layout: tuple[Block, ...], scaling: float) -> Tensor:
        key_heads, groups = key.shape[1], query.shape[1] // key.shape[1]
        out = torch.zeros_like(query)
        lse = query.new_zeros(query.shape[:3], dtype=torch.promote_types(query.dtype, torch.float32))
        for block in layout:
            q, k, v = (_heads(x[block.row], key_heads, groups) for x in (query, key, value))
            o, total = (_heads(x[block.row], key_heads, groups) for x in (out, lse))
            prompt, own = _columns(block)
            o[:, :, prompt], total[:, :, prompt] = _attend(q, k, v, prompt, prompt, scaling, causal=True)
            if not own:
                continue
            rest = slice(own[0].start, own[-1].stop)
            o[:, :, rest], total[:, :, rest] = _attend(q, k, v, rest, prompt, scaling, causal=False)
            for mine in own:
                part, part_lse = _attend(q, k, v, mine, mine, scaling, causal=True)
                merged = torch.logaddexp(total[:, :, mine], part_lse)
                from_prompt = (total[:, :, mine] - merged).exp()[..., None]
                from_own = (part_lse - merged).exp()[..., None]
                o[:, :, mine] = (o[:, :, mine] * from_prompt + part * from_own).to(o.dtype)
                total[:, :, mine] = merged
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.layout, ctx.scaling = layout, scaling
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):
        query, key, value, out, lse = ctx.saved_tensors
        key_heads, groups = key.shape[1], query.shape[1] // key.shape[1]
        sums = tuple(torch.zeros_like(x) for x in (query, key, value))
        for block in ctx.layout:
            saved = tuple(_heads(x[block.row], key_heads, groups) for x in (gradient, query, key, value, out, lse))
            into = tuple(_heads(x[block.row], key_heads, n) for x, n in zip(sums, (groups, 1, 1), strict=True))
            prompt, own = _columns(block)
            _backward_into(into, saved, prompt, prompt, ctx.scaling, causal=True)
            if own:
                _backward_into(into, saved, slice(own[0].start, own[-1].stop), prompt, ctx.scaling, causal=False)
            for mine in own:
                _backward_into(into, saved, mine, mine, ctx.scaling, causal=True)
        return *sums, None, None


def _columns(block: Block) -> tuple[slice, list[slice]]:
    """The columns of the prompt, and of each completion that is not empty.

    A single completion is treated as a part of its prompt.
    """
    if len(block.completions) == 1:
        return slice(block.start, block.start + block.length), []
    at = block.start + block.prompt
    own = []
    for length in block.completions:
        if length:
            own.append(slice(at, at + length))
        at += length
    return slice(block.start, block.start + block.prompt), own


def _heads(x: Tensor, key_heads: int, groups: int) -> Tensor:
    """[heads, L, ...] -> [key heads, groups, L, ...] without a copy: queries with the same keys, or repeated keys."""
    if x.shape[0] == key_heads:
        return x[:, None].expand(key_heads, groups, *x.shape[1:])
    return x.view(key_heads, groups, *x.shape[1:])


def _attend(q, k, v, queries: slice, keys: slice, scaling: float, causal: bool) -> tuple[Tensor, Tensor]:
    out, lse, *_ = _forward(q[:, :, queries], k[:, :, keys], v[:, :, keys], 0.0, causal, scale=scaling)
    return out, lse


def _backward_into(into, saved, queries: slice, keys: slice, scaling: float, causal: bool) -> None:
    gradient, q, k, v, out, lse = saved
    parts = _backward(
        gradient[:, :, queries],
        q[:, :, queries],
        k[:, :, keys],
        v[:, :, keys],
        out[:, :, queries],
        lse[:, :, queries],
        0.0,
        causal,
        scale=scaling,
    )
    into[0][:, :, queries] += parts[0]
    into[1][:, :, keys] += parts[1].sum(1, keepdim=True)
    into[2][:, :, keys] += parts[2].sum(1, keepdim=True)
