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

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from sweet_rl.errors import UserError, first_line
from sweet_rl.log_probs.attention import Attention
from sweet_rl.log_probs.projection import unwrapped
from sweet_rl.log_probs.rows import Block

log = logging.getLogger(__name__)

NAMES = {way: f"shared_prefix_{way}" for way in ("segments", "flex", "masked")}
"""The name of each way as an attention of transformers."""
USUAL = {"cpu": "segments", "cuda": "flex"}
"""The way by type of device; masked for others."""
TINY = (Block(0, 0, 70, (9, 40)), Block(0, 119, 5, (13,)))  # rows of `why_not`
TOLERANCE = 0.1  # of the largest number, between two ways in any precision; a wrong mask is off by far more
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

    def padded(self) -> RowAttention:
        """The same with rows of a multiple of BLOCK tokens, made once."""
        extra = -self.blocks.shape[1] % BLOCK
        if extra and "padded" not in self._made:
            blocks = F.pad(self.blocks, (0, extra), value=-1)
            completions, positions = (F.pad(x, (0, extra)) for x in (self.completions, self.positions))
            self._made["padded"] = RowAttention(self.layout, blocks, completions, positions)
        return self._made["padded"] if extra else self

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


for _way, _name in NAMES.items():
    AttentionInterface.register(_name, partial(attend, _way))
    AttentionMaskInterface.register(_name, sdpa_mask)


def _tiny_rows(device: torch.device) -> RowAttention:
    """One row of the blocks TINY and some padding."""
    length = TINY[-1].start + TINY[-1].length + 3
    blocks, completions, positions = (torch.full((1, length), value) for value in (-1, 0, 0))
    for number, block in enumerate(TINY):
        blocks[0, block.start : block.start + block.length] = number
        positions[0, block.start : block.start + block.prompt] = torch.arange(block.prompt)
        at = block.start + block.prompt
        for order, size in enumerate(block.completions, 1):
            completions[0, at : at + size] = order
            positions[0, at : at + size] = torch.arange(block.prompt, block.prompt + size)
            at += size
    return RowAttention(TINY, blocks, completions, positions).to(device)


def why_not(
    way: str, heads: tuple[int, int, int], device: torch.device, dtype: torch.dtype, backward: bool
) -> str | None:
    """The reason why a way does not work on a device, from a tiny pass beside the masked way; None if it works.

    Args:
        way: A key of NAMES.
        heads: Numbers of query heads and of key heads, and the size of a head.
        device: Device of the pass.
        dtype: Number format of queries, keys and values.
        backward: Whether gradients are computed too.
    """
    count, key_heads, size = heads
    try:
        rows = _tiny_rows(device)
        real = (rows.blocks >= 0)[..., None, None]
        shapes = [(1, n, rows.blocks.shape[1], size) for n in (count, key_heads, key_heads)]
        found = []
        for one in (way, "masked"):
            with torch.inference_mode(False), torch.set_grad_enabled(backward):
                draw = torch.Generator().manual_seed(0)
                inputs = [
                    torch.randn(shape, generator=draw).to(device, dtype).requires_grad_(backward) for shape in shapes
                ]
                query, key, value = inputs
                module = torch.nn.Module().train(backward)
                out = attend(one, module, query, key, value, None, rows=rows)[0] * real
                gradients = torch.autograd.grad(out.float().square().sum(), inputs) if backward else ()
            found.append([x.detach().float() for x in (out, *gradients)])
        gap = max(float((ours - theirs).abs().max() / theirs.abs().max()) for ours, theirs in zip(*found, strict=True))
    except Exception as error:  # compilers and drivers fail in many ways
        return first_line(error)[:300]
    return None if gap < TOLERANCE else f"its numbers are wrong (by {gap:.0%} of the largest)"


def why_not_shared(model: PreTrainedModel) -> str | None:
    """The reason why sharing the model's prompts between completions is not exact; None if it is."""
    config = model.config
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    ropes = [rope] if "rope_type" in rope else [r for r in rope.values() if isinstance(r, dict)]
    unfixed = {r.get("rope_type", "default") for r in ropes} - FIXED_ROPES
    if config.model_type not in FAMILIES:
        return f"{config.model_type} is none of the tested families ({', '.join(sorted(FAMILIES))})"
    if config._attn_implementation not in ("sdpa", *NAMES.values()):
        return f"its attention is {config._attn_implementation}, not sdpa"
    if getattr(text, "attention_dropout", 0):
        return f"attention_dropout is {text.attention_dropout}"
    if unfixed:
        return f"its rotary embedding ({', '.join(sorted(unfixed))}) depends on the longest text of a batch"
    return None


def share_prompts(
    model: torch.nn.Module,
    attention: Attention | None = None,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
    backward: bool = False,
) -> bool:
    """Switch the model to shared-prefix attention if that is exact and works. Returns whether it is switched.

    If not, a warning gives the reason, and prompts are computed once per text. If the usual way does not work on this
    device, a warning gives the reason and the model takes the masked way. Calls without rows (generation) stay as they
    are.

    Args:
        model: Model to switch.
        attention: Way that was asked for; plain switches nothing. By default that of a model which is switched
            already, else the usual one of the device.
        device: Device on which the model will run; default: that of its weights.
        dtype: Number format in which it will compute; default: that of its weights.
        backward: Whether gradients will be computed.

    Raises:
        UserError: The way that was asked for does not work, or would not be exact.
    """
    inner = unwrapped(model)
    now = inner.config._attn_implementation
    if attention == "plain":
        if now in NAMES.values():
            inner.set_attn_implementation("sdpa")
        return False
    reason = why_not_shared(inner)
    if reason is not None:
        if attention is not None:
            raise UserError(f"--attention {attention} is not exact for this model: {reason}. Leave it out.")
        _warn(f"prompts are not shared between completions (slower, same result): {reason}")
        return False
    if attention is None and now in NAMES.values():
        return True
    device = torch.device(device or next(inner.parameters()).device)
    text = inner.config.get_text_config()
    key_heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    way = _working_way(attention, (text.num_attention_heads, key_heads, size), device, dtype or inner.dtype, backward)
    if way is not None:
        inner.set_attn_implementation(NAMES[way])
    return way is not None


@cache
def _working_way(attention: str | None, heads: tuple, device: torch.device, dtype: torch.dtype, backward: bool):
    """The way that was asked for, or else the first that works; None if none does. Arguments as of `why_not`."""
    ways = [attention] if attention else list(dict.fromkeys([USUAL.get(device.type, "masked"), "masked"]))
    for way, other in zip(ways, [*ways[1:], "plain"], strict=True):
        reason = why_not(way, heads, device, dtype, backward)
        if reason is None:
            return way
        if attention is not None:
            raise UserError(
                f"--attention {way} does not work here: {reason}. Leave it out, or give --attention masked."
            )
        _warn(f"--attention {other} is taken (slower, same result), because {way} does not work here: {reason}")
    return None


def _warn(text: str) -> None:
    """Log a warning, once for all processes of a training."""
    if os.environ.get("RANK", "0") == "0":
        log.warning(text)
