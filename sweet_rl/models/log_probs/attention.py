"""Attention over rows in which completions share their prompt, registered with transformers as `shared_prefix_WAY`.

A token sees its prompt and its own completion, nothing else of the row. Two ways to compute that, equal up to rounding:

  segments  CPU: a prompt attends to itself once, every completion to the prompt and, causally, to itself, and the
            two are merged by their log-sum-exps; no mask is made and no masked-out score computed
  flex      GPU: FlexAttention with a block mask, compiled; it needs a C compiler
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from sweet_rl.models.log_probs.projection import PLAIN_HEADS, unwrapped
from sweet_rl.models.log_probs.rows import Block
from sweet_rl.models.log_probs.segments import Segments
from sweet_rl.models.settings import Attention
from sweet_rl.runs.errors import UserError

log = logging.getLogger(__name__)

NAMES = {way: f"shared_prefix_{way}" for way in ("segments", "flex")}
"""The name of each way as an attention of transformers."""
USUAL = {"cpu": "segments", "cuda": "flex"}
"""The way by type of device; on others each text has its own row."""
BLOCK = 128  # tokens of a block of FlexAttention
COMPILED = 64  # most variants of FlexAttention to compile: beyond Dynamo's 8 it would run uncompiled, with all scores
# Families whose attention takes the rows unchanged, each held equal to the plain way by a test.
FAMILIES = PLAIN_HEADS | {"granite"}
PICTURE_FAMILIES = frozenset({"qwen2_vl", "qwen2_5_vl"})  # the same, behind pictures (vision.py)


def share_prompts(
    model: torch.nn.Module, attention: Attention | None = None, device: torch.device | None = None
) -> bool:
    """Switch the model to shared-prefix attention if that is exact for it. Returns whether it is switched.

    If not, a warning gives the reason, and prompts are computed once per text. Calls without rows (generation) stay as
    they are. By default the way is that of a model which is switched already, else the usual one of `device` (default:
    that of its weights). Raises UserError if the way that was asked for would not be exact.
    """
    inner = unwrapped(model)
    switched = inner.config._attn_implementation in NAMES.values()
    if attention == "plain":
        if switched:
            inner.set_attn_implementation("sdpa")
        return False
    kind = torch.device(device or next(inner.parameters()).device).type
    reason = _why_not(inner)
    if reason is None and attention is None and kind not in USUAL:
        reason = f"there is no such attention for {kind}"
    if reason is not None:
        if attention is not None:
            raise UserError(f"--attention {attention} is not exact for this model: {reason}. Leave it out.")
        if os.environ.get("RANK", "0") == "0":
            log.warning("prompts are not shared between completions (slower, same result): %s", reason)
        return False
    if attention is not None or not switched:
        inner.set_attn_implementation(NAMES[attention or USUAL[kind]])
    return True


def _why_not(model: Any) -> str | None:
    """The reason why sharing the model's prompts between completions is not exact; None if it is."""
    config = model.config
    dropout = getattr(config.get_text_config(), "attention_dropout", 0)
    if config.model_type not in FAMILIES | PICTURE_FAMILIES:
        tested = ", ".join(sorted(FAMILIES | PICTURE_FAMILIES))
        return f"{config.model_type} is none of the tested families ({tested})"
    if config._attn_implementation not in ("sdpa", *NAMES.values()):
        return f"its attention is {config._attn_implementation}, not sdpa"
    return f"attention_dropout is {dropout}" if dropout else None


def attention_inputs(model: torch.nn.Module, batch: dict[str, Any]) -> dict[str, Any]:
    """The model's inputs for attention over the rows of a batch of `rows.lay_out`.

    Raises UserError if prompts are shared, and a text is longer than the model's sliding window.
    """
    config, layout = unwrapped(model).config, batch["layout"]
    if layout is None:
        return {"attention_mask": (batch["blocks"] >= 0).long()}
    if config._attn_implementation not in NAMES.values():
        raise ValueError("rows with shared prompts need a model that share_prompts(model) has switched")
    text = config.get_text_config()
    window, slides = getattr(text, "sliding_window", None), getattr(text, "layer_types", None) or ["sliding_attention"]
    longest = max(block.longest for block in layout)
    if window is not None and "sliding_attention" in slides and longest > window:
        raise UserError(
            f"a text of {longest} tokens is longer than the model's sliding window of {window}, so that prompts cannot "
            "be shared: give --attention plain."
        )
    # The mask has four dimensions, so that transformers makes none of its own.
    no_mask = batch["blocks"].new_zeros(1, 1, 1, 1)
    return {"rows": RowAttention(layout, batch["blocks"], batch["completions"]), "attention_mask": no_mask}


@dataclass
class RowAttention:
    """What a token of the rows may see (see `rows.lay_out`), passed through the model to `attend`."""

    layout: tuple[Block, ...]
    blocks: Tensor
    completions: Tensor
    _moved: dict = field(default_factory=dict)

    def to(self, device: torch.device | str | int, **_) -> RowAttention:
        """The same on another device, made once; accelerate calls it in a model that lies on several GPUs."""
        device = torch.device(device)
        if device == self.blocks.device:
            return self
        if device not in self._moved:
            self._moved[device] = RowAttention(self.layout, self.blocks.to(device), self.completions.to(device))
        return self._moved[device]

    @cached_property
    def block_mask(self) -> Any:
        """FlexAttention's BlockMask, for rows padded to a multiple of BLOCK tokens; made once for all layers."""
        from torch.nn.attention.flex_attention import create_block_mask

        rows, length = self.blocks.shape
        padding = (0, -length % BLOCK)
        seen = visible(F.pad(self.blocks, padding, value=-1), F.pad(self.completions, padding))
        size, device = length + padding[1], self.blocks.device
        return create_block_mask(seen, rows, None, size, size, device=device, BLOCK_SIZE=BLOCK)


def visible(blocks: Tensor, completions: Tensor) -> Callable[..., Tensor]:
    """FlexAttention's function of (row, head, q, k): whether token q of a row may see token k."""

    def mask(row, head, q, k):
        own = (completions[row, k] == 0) | (completions[row, k] == completions[row, q])
        return (k <= q) & (blocks[row, k] == blocks[row, q]) & own

    return mask


def attend(
    way: str,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    rows: RowAttention | None = None,
    **kwargs,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it, in one of the ways; without `rows` plain SDPA attention.

    query: [R, heads, L, d]. key, value: [R, key heads, L, d]. Returns [R, L, heads, d] and None.
    """
    if rows is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key = query.to(value.dtype), key.to(value.dtype)
    if way == "segments":
        return Segments.apply(query, key, value, rows.layout, scaling).transpose(1, 2), None
    return _attend_flex(module, query, key, value, rows, scaling)


def _attend_flex(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, rows: RowAttention, scaling: float
) -> tuple[Tensor, None]:
    """FlexAttention, compiled by transformers; blocks that no token sees are skipped.

    Rows are padded to a multiple of BLOCK tokens, so that few lengths are compiled.
    """
    from torch._dynamo import config
    from transformers.integrations.flex_attention import flex_attention_forward

    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # torch 2.6
    setattr(config, limit, max(getattr(config, limit), COMPILED))
    length = query.shape[2]
    query, key, value = (F.pad(x, (0, 0, 0, -length % BLOCK)) for x in (query, key, value))
    out, _ = flex_attention_forward(module, query, key, value, rows.block_mask, scaling=scaling)
    return out[:, :length], None


for _way, _name in NAMES.items():
    AttentionInterface.register(_name, partial(attend, _way))
    AttentionMaskInterface.register(_name, sdpa_mask)
