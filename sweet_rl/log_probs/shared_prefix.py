"""Attention over rows in which completions share their prompt, registered with transformers as `shared_prefix`.

A token sees its prompt and its own completion, nothing else of the row. Three ways to compute that, equal up to
rounding:

  segments  CPU: a prompt attends to itself once, every completion to the prompt and, causally, to itself, and the
            two are merged by their log-sum-exps; no mask is made and no masked-out score computed
  flex      GPU: FlexAttention with a block mask
  masked    SDPA with a mask of the row's length squared: sliding windows shorter than a text, and GPUs whose
            torch lacks FlexAttention
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.utils import is_torch_flex_attn_available

from sweet_rl.log_probs.projection import unwrapped
from sweet_rl.log_probs.rows import Block

log = logging.getLogger(__name__)

NAME = "shared_prefix"
BLOCK = 128  # tokens of a block of FlexAttention
MASK_ELEMENTS = 2**26  # pairs (q, k) of which the visibility is computed at a time, on the way to a block mask
COMPILED = 64  # most variants of FlexAttention to compile: beyond Dynamo's 8 it would run uncompiled, with all scores
# Families whose attention takes the rows unchanged, each held equal to the plain way by a test.
FAMILIES = frozenset(
    {"gemma", "gemma3_text", "gpt_neox", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3"}
) | {"qwen2_vl", "qwen2_5_vl"}
FIXED_ROPES = frozenset({"default", "linear", "llama3", "yarn"})  # rotations that no other text's length changes


@dataclass
class RowAttention:
    """What a token of the rows may see, passed through the model to `attend`.

    The masks are computed once per sliding window, for all layers.

    Attributes:
        layout: the blocks.
        blocks, completions, positions: int64 [R, L], see `rows.lay_out`.
    """

    layout: tuple[Block, ...]
    blocks: Tensor
    completions: Tensor
    positions: Tensor
    _made: dict = field(default_factory=dict)

    def to(self, device: torch.device | str | int, **_) -> RowAttention:
        """The same on another device, made once; accelerate calls it in a model that lies on several GPUs."""
        device = torch.device(device)
        if device == self.blocks.device:
            return self
        if device not in self._made:
            self._made[device] = RowAttention(
                self.layout, self.blocks.to(device), self.completions.to(device), self.positions.to(device)
            )
        return self._made[device]

    def longest(self) -> int:
        """Tokens of the longest text."""
        return max(block.prompt + max(block.completions, default=0) for block in self.layout)

    def visible(self, window: int | None = None) -> Tensor:
        """Bool [R, 1, L, L]: whether token q may see token k. Padding sees padding: no softmax is empty."""
        if ("visible", window) not in self._made:
            length = self.blocks.shape[1]
            mask_mod = self.mask_mod(window)
            row = torch.arange(len(self.blocks), device=self.blocks.device)[:, None, None]
            at = torch.arange(length, device=self.blocks.device)
            self._made["visible", window] = mask_mod(row, None, at[:, None], at[None, :])[:, None]
        return self._made["visible", window]

    def mask_mod(self, window: int | None = None) -> Callable[..., Tensor]:
        """The same as FlexAttention's function of (row, head, q, k)."""
        blocks, completions, positions = self.blocks, self.completions, self.positions

        def mask(row, head, q, k):
            own = (completions[row, k] == 0) | (completions[row, k] == completions[row, q])
            seen = (k <= q) & (blocks[row, k] == blocks[row, q]) & own
            return seen if window is None else seen & (positions[row, q] - positions[row, k] < window)

        return mask

    def block_mask(self, window: int | None = None):
        """FlexAttention's BlockMask of `mask_mod`.

        Equal to that of `create_block_mask`, which holds the whole mask in memory; here it is MASK_ELEMENTS at a time.
        """
        from torch.nn.attention.flex_attention import BlockMask

        if ("block", window) not in self._made:
            length = self.blocks.shape[1]
            seen = self._seen_in_blocks(self.mask_mod(window))
            full = seen == BLOCK**2
            partial_counts, partial_order = _first_to_last((seen > 0) & ~full)
            full_counts, full_order = _first_to_last(full)
            self._made["block", window] = BlockMask.from_kv_blocks(
                partial_counts,
                partial_order,
                full_counts,
                full_order,
                BLOCK_SIZE=BLOCK,
                mask_mod=self.mask_mod(window),
                seq_lengths=(length, length),
            )
        return self._made["block", window]

    def _seen_in_blocks(self, mask_mod: Callable[..., Tensor]) -> Tensor:
        """Visible pairs (q, k) of each pair of blocks of BLOCK tokens: int64 [R, 1, L / BLOCK, L / BLOCK]."""
        (rows, length), device = self.blocks.shape, self.blocks.device
        row, at = (torch.arange(size, device=device) for size in (rows, length))
        padding = -length % BLOCK
        found = []
        for queries in at.split(BLOCK * max(1, MASK_ELEMENTS // (rows * length * BLOCK))):
            mask = mask_mod(row[:, None, None], None, queries[:, None], at)
            mask = F.pad(mask, (0, padding, 0, -len(queries) % BLOCK))
            found.append(mask.unflatten(-1, (-1, BLOCK)).sum(-1).unflatten(1, (-1, BLOCK)).sum(2))
        return torch.cat(found, 1)[:, None]


def attend(
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
    """Attention as transformers calls it; without `rows` plain SDPA attention.

    query: [R, heads, L, d]. key, value: [R, key heads, L, d]. Returns [R, L, heads, d] and None.
    """
    if rows is None:
        kwargs |= {"scaling": scaling, "sliding_window": sliding_window}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key = query.to(value.dtype), key.to(value.dtype)
    window = None if sliding_window is None or rows.longest() <= sliding_window else sliding_window
    if query.device.type == "cpu" and window is None:
        return Segments.apply(query, key, value, rows.layout, scaling).transpose(1, 2), None
    if query.device.type == "cuda" and is_torch_flex_attn_available():
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
    """FlexAttention, compiled by transformers if there is a GPU; blocks that no token sees are skipped."""
    from torch._dynamo import config
    from transformers.integrations.flex_attention import flex_attention_forward

    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # torch 2.6
    setattr(config, limit, max(getattr(config, limit), COMPILED))
    out, _ = flex_attention_forward(module, query, key, value, rows.block_mask(window), scaling=scaling)
    return out, None


_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Segments(torch.autograd.Function):
    """The same by segments: each visible pair (queries, keys) of a block goes through torch's CPU flash kernel.

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


def _first_to_last(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The number of true entries of each row of `mask`, and the indices of its entries with the true ones first."""
    return mask.sum(-1, dtype=torch.int32), mask.int().argsort(descending=True, stable=True).int()


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


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)


def why_not_shared(model: PreTrainedModel) -> str | None:
    """The reason why sharing the model's prompts between completions is not exact; None if it is."""
    config = model.config
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    ropes = [rope] if "rope_type" in rope else [r for r in rope.values() if isinstance(r, dict)]
    unfixed = {r.get("rope_type", "default") for r in ropes} - FIXED_ROPES
    if config.model_type not in FAMILIES:
        return f"{config.model_type} is none of the tested families ({', '.join(sorted(FAMILIES))})"
    if config._attn_implementation not in ("sdpa", NAME):
        return f"its attention is {config._attn_implementation}, not sdpa"
    if getattr(text, "attention_dropout", 0):
        return f"attention_dropout is {text.attention_dropout}"
    if unfixed:
        return f"its rotary embedding ({', '.join(sorted(unfixed))}) depends on the longest text of a batch"
    return None


def share_prompts(model: torch.nn.Module) -> bool:
    """Switch the model to shared-prefix attention if that is exact. Returns whether it is.

    If not, a warning gives the reason, and prompts are computed once per text. Calls without rows (generation) do not
    change.
    """
    inner = unwrapped(model)
    reason = why_not_shared(inner)
    if reason is None:
        inner.set_attn_implementation(NAME)
        return True
    log.warning("prompts are not shared between completions (slower, same result): %s", reason)
    return False
