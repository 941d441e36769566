"""Switching a model to attention over rows, if that is exact for it and works on the device."""

from __future__ import annotations

import logging
import os
from functools import cache

import torch
from transformers import PreTrainedModel

from sweet_rl.models.context import ropes
from sweet_rl.models.log_probs.attend import NAMES, attend
from sweet_rl.models.log_probs.attention import Attention
from sweet_rl.models.log_probs.projection import unwrapped
from sweet_rl.models.log_probs.row_attention import RowAttention
from sweet_rl.models.log_probs.rows import Block
from sweet_rl.runs.errors import UserError, first_line

log = logging.getLogger(__name__)

USUAL = {"cpu": "segments", "cuda": "flex"}
"""The way by type of device; masked for others."""
TINY = (Block(0, 0, 70, (9, 40)), Block(0, 119, 5, (13,)))  # rows of `why_not`
TOLERANCE = 0.1  # of the largest number, between two ways in any precision; a wrong mask is off by far more
# Families whose attention takes the rows unchanged, each held equal to the plain way by a test.
FAMILIES = frozenset(
    {"gemma", "gemma3_text", "gpt_neox", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3"}
)
PICTURE_FAMILIES = frozenset({"qwen2_vl", "qwen2_5_vl"})  # the same, behind pictures (vision.py)
FIXED_ROPES = frozenset({"default", "linear", "llama3", "yarn"})  # rotations that no other text's length changes


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
    unfixed = {rope.get("rope_type", "default") for rope in ropes(text)} - FIXED_ROPES
    if config.model_type not in FAMILIES | PICTURE_FAMILIES:
        tested = ", ".join(sorted(FAMILIES | PICTURE_FAMILIES))
        return f"{config.model_type} is none of the tested families ({tested})"
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
