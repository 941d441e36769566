"""The ways to compute shared-prefix attention agree with each other and with plain attention."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sweet_rl.scoring.rows import EncodedText, lay_out
from sweet_rl.scoring.shared_prefix import RowAttention, Segments, attend_flex, attend_masked

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


def test_the_gradients_of_segments_are_those_of_finite_differences():
    attention, _ = rows()
    q, k, v = heads(attention)
    torch.autograd.gradcheck(lambda *x: Segments.apply(*x, attention.layout, 0.3), (q, k, v), fast_mode=True)


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


@pytest.mark.parametrize("window", [None, 3])
def test_the_block_mask_of_flex_attention_is_the_mask(window):
    attention, _ = rows(20)
    dense = torch.zeros(attention.visible(window).shape, dtype=torch.bool)
    mask_mod = attention.block_mask(window).mask_mod
    for r, q, k in torch.ones_like(attention.visible(window)[:, 0]).nonzero().tolist():
        dense[r, 0, q, k] = mask_mod(torch.tensor(r), torch.tensor(0), torch.tensor(q), torch.tensor(k))
    assert torch.equal(dense, attention.visible(window))
