"""The ways to compute shared-prefix attention agree with each other and with plain attention."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from sweet_rl.models.log_probs import row_attention
from sweet_rl.models.log_probs.attend import attend_flex, attend_masked
from sweet_rl.models.log_probs.row_attention import BLOCK, RowAttention
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.models.log_probs.segments import Segments

HEADS, KEY_HEADS, SIZE = 4, 2, 8


def rows(row_tokens: int = 2048, seed: int = 0) -> tuple[RowAttention, list[EncodedText]]:
    """Three prompts of which one has five completions, one of them empty (its one trained token is only
    predicted), one has two and one has one."""
    draw = torch.Generator().manual_seed(seed)
    texts = []
    for prompt, completions in ((7, (3, 1, 5, 2, 9)), (2, (4, 1)), (1, (6,))):
        head = torch.randint(0, 50, (prompt,), generator=draw).tolist()
        for length in completions:
            tail = torch.randint(0, 50, (length,), generator=draw).tolist()
            texts.append(EncodedText.build([*head, *tail], [False] * prompt + [True] * length, "text"))
    batch = lay_out(texts, row_tokens=row_tokens)
    return RowAttention(*(batch[name] for name in ("layout", "blocks", "completions", "position_ids"))), texts


def heads(attention: RowAttention, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Random query, key and value."""
    draw = torch.Generator().manual_seed(3)
    count, length = attention.blocks.shape
    return [
        torch.randn(count, n, length, SIZE, generator=draw, dtype=dtype).requires_grad_()
        for n in (HEADS, KEY_HEADS, KEY_HEADS)
    ]


def text_by_text(attention: RowAttention, q, k, v) -> torch.Tensor:
    """Plain causal attention, each completion after a copy of its prompt."""
    k, v = (x.repeat_interleave(HEADS // KEY_HEADS, 1) for x in (k, v))
    out = torch.zeros_like(q)
    for block in attention.layout:
        at = block.start + block.prompt
        for length in block.completions:
            own = [*range(block.start, block.start + block.prompt), *range(at, at + length)]
            part = F.scaled_dot_product_attention(
                *(x[block.row : block.row + 1, :, own] for x in (q, k, v)), is_causal=True, scale=0.3
            )
            out = out.index_put(
                (torch.tensor(block.row), torch.arange(HEADS)[:, None], torch.tensor(own)[None]), part[0]
            )
            at += length
    return out


@pytest.mark.parametrize("row_tokens", [1, 20, 2048])
def test_segments_equal_text_by_text_attention_in_values_and_gradients(row_tokens):
    attention, _ = rows(row_tokens)
    seen = (attention.blocks >= 0)[:, None, :, None]
    q, k, v = heads(attention)
    weights = torch.randn(q.shape, dtype=q.dtype, generator=torch.Generator().manual_seed(4)) * seen
    expected = text_by_text(attention, q, k, v)
    (expected * weights).sum().backward()
    gradients = [x.grad.clone() for x in (q, k, v)]
    q.grad = k.grad = v.grad = None
    found = Segments.apply(q, k, v, attention.layout, 0.3)
    (found * weights).sum().backward()
    torch.testing.assert_close(found * seen, expected * seen, rtol=0, atol=1e-12)
    for tensor, gradient in zip((q, k, v), gradients, strict=True):
        torch.testing.assert_close(tensor.grad, gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_segments_work_in_the_precisions_of_training(dtype, tolerance):
    attention, _ = rows()
    q, k, v = heads(attention)
    expected = Segments.apply(q, k, v, attention.layout, 0.3)
    found = Segments.apply(q.to(dtype), k.to(dtype), v.to(dtype), attention.layout, 0.3)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("window", [None, 1, 4])
def test_the_mask_shows_exactly_the_prompt_and_the_own_completion_within_the_window(window):
    attention, _ = rows(20)
    mask = attention.visible(window)[:, 0]
    for r in range(mask.shape[0]):
        for q in range(mask.shape[1]):
            for k in range(mask.shape[1]):
                same = attention.blocks[r, q] == attention.blocks[r, k]
                own = attention.completions[r, k] in (0, attention.completions[r, q])
                near = window is None or attention.positions[r, q] - attention.positions[r, k] < window
                assert mask[r, q, k] == bool(k <= q and same and own and near)


@pytest.mark.parametrize("window", [None, 4])
def test_flex_attention_equals_the_masked_way(window):
    """FlexAttention's own CPU path; on a GPU the same mask function is compiled."""
    attention, _ = rows(20)
    q, k, v = (x.detach() for x in heads(attention, torch.float32))
    expected, _ = attend_masked(q, k, v, attention, 0.3, window)
    module = torch.nn.Module().eval()
    with torch.compiler.set_stance("force_eager"):
        found, _ = attend_flex(module, q, k, v, attention, 0.3, window)
    seen = (attention.blocks >= 0)[:, :, None, None]
    torch.testing.assert_close(found * seen, expected * seen, rtol=0, atol=1e-5)


@pytest.mark.parametrize("window", [None, 40])
def test_the_block_mask_is_that_of_torch_without_the_whole_mask_in_memory(window, monkeypatch):
    texts = []
    for prompt, completions in ((300, (150, 20, 90)), (10, (700,)), (129, (1, 130))):
        texts += [
            EncodedText.build([number, *range(1, prompt + tail)], [False] * prompt + [True] * tail, "text")
            for number in (prompt,) for tail in completions
        ]  # fmt: skip
    batch = lay_out(texts, row_tokens=900)
    attention = RowAttention(*(batch[name] for name in ("layout", "blocks", "completions", "position_ids")))
    rows, length = attention.blocks.shape
    assert rows == 2 and length % BLOCK
    expected = create_block_mask(attention.mask_mod(window), rows, None, length, length, device="cpu")
    assert (expected.full_kv_num_blocks.sum() > 0) == (window is None)
    monkeypatch.setattr(row_attention, "MASK_ELEMENTS", 1)
    made, mask_mod = [], attention.mask_mod(window)
    monkeypatch.setattr(attention, "mask_mod", lambda _: lambda *at: made.append(mask_mod(*at)) or made[-1])
    found = attention.block_mask(window)
    assert max(mask.numel() for mask in made) == rows * length * BLOCK
    for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert found.seq_lengths == expected.seq_lengths and found.BLOCK_SIZE == expected.BLOCK_SIZE


def test_flex_attention_stays_compiled_beyond_dynamos_limit_of_variants(monkeypatch):
    """Windows, precisions, gradients, one row or more: each is compiled. The limit of 8 is lowered to 2 here."""
    compiled = torch.compile(flex_attention, backend=(counter := CompileCounter()))
    monkeypatch.setattr(
        "transformers.integrations.flex_attention.WrappedFlexAttention", lambda training: lambda: compiled
    )
    torch._dynamo.reset()
    attention, _ = rows(20)
    # By its own patch: what monkeypatch puts back is deleted from this module.
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True, recompile_limit=2):
        for dtype in (torch.float32, torch.bfloat16):
            for window in (None, 4):
                q, k, v = (x.detach() for x in heads(attention, dtype))
                attend_flex(torch.nn.Module().eval(), q, k, v, attention, 0.3, window)
    assert counter.frame_count == 4
    torch._dynamo.reset()
