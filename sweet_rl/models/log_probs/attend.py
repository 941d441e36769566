"""Attention over rows in which completions share their prompt, registered with transformers as `shared_prefix_WAY`.

A token sees its prompt and its own completion, nothing else of the row. Three ways to compute that, equal up to
rounding:

  segments  CPU: a prompt attends to itself once, every completion to the prompt and, causally, to itself, and the
            two are merged by their log-sum-exps; no mask is made and no masked-out score computed
  flex      GPU: FlexAttention with a block mask, compiled
  masked    SDPA with a mask of the row's length squared: sliding windows shorter than a text on a CPU, and where the
            usual way does not work
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from sweet_rl.models.log_probs.row_attention import RowAttention
from sweet_rl.models.log_probs.segments import Segments

NAMES = {way: f"shared_prefix_{way}" for way in ("segments", "flex", "masked")}
"""The name of each way as an attention of transformers."""
COMPILED = 64  # most variants of FlexAttention to compile: beyond Dynamo's 8 it would run uncompiled, with all scores


def attend(
    way: str,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    rows: RowAttention | None = None,
    **kwargs,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it, in one of the ways; without `rows` plain SDPA attention.

    query: [R, heads, L, d]. key, value: [R, key heads, L, d]. Returns [R, L, heads, d] and None.
    """
    if rows is None:
        kwargs |= {"scaling": scaling, "sliding_window": sliding_window}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key = query.to(value.dtype), key.to(value.dtype)
    window = None if sliding_window is None or rows.longest() <= sliding_window else sliding_window
    if way == "segments" and window is None:
        return Segments.apply(query, key, value, rows.layout, scaling).transpose(1, 2), None
    if way == "flex":
        return attend_flex(module, query, key, value, rows, scaling, window)
    return attend_masked(query, key, value, rows, scaling, window)


def attend_masked(
    query: Tensor, key: Tensor, value: Tensor, rows: RowAttention, scaling: float, window: int | None = None
) -> tuple[Tensor, None]:
    """One SDPA call over the whole row, with its mask."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=rows.visible(window), scale=scaling)
    return out.transpose(1, 2), None


def attend_flex(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: RowAttention,
    scaling: float,
    window: int | None = None,
) -> tuple[Tensor, None]:
    """FlexAttention, compiled by transformers; blocks that no token sees are skipped.

    Rows are padded to a multiple of BLOCK tokens, so that few lengths are compiled.
    """
    from torch._dynamo import config
    from transformers.integrations.flex_attention import flex_attention_forward

    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # torch 2.6
    setattr(config, limit, max(getattr(config, limit), COMPILED))
    length, rows = query.shape[2], rows.padded()
    query, key, value = (F.pad(x, (0, 0, 0, rows.blocks.shape[1] - length)) for x in (query, key, value))
    out, _ = flex_attention_forward(module, query, key, value, rows.block_mask(window), scaling=scaling)
    return out[:, :length], None


for _way, _name in NAMES.items():
    AttentionInterface.register(_name, partial(attend, _way))
    AttentionMaskInterface.register(_name, sdpa_mask)
