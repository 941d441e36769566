"""Attention over rows: each way equals plain attention, and one that would not be exact is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import flex_attention

from sweet_rl.models.log_probs.attention import NAMES, RowAttention, attend, share_prompts
from sweet_rl.models.log_probs.logps import ROW_TOKENS, completion_logps
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.models.log_probs.segments import Segments
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import VOCABULARY, tiny_model

HEADS, KEY_HEADS, SIZE = 4, 2, 8


def row_attention(batch) -> RowAttention:
    return RowAttention(*(batch[name] for name in ("layout", "blocks", "completions")))


def rows(row_tokens: int = 2048, seed: int = 0) -> RowAttention:
    """Three prompts of which one has five completions, one of them empty (its one trained token is only
    predicted), one has two and one has one."""
    draw = torch.Generator().manual_seed(seed)
    texts = []
    for prompt, completions in ((7, (3, 1, 5, 2, 9)), (2, (4, 1)), (1, (6,))):
        head = torch.randint(0, 50, (prompt,), generator=draw).tolist()
        for length in completions:
            tail = torch.randint(0, 50, (length,), generator=draw).tolist()
            texts.append(EncodedText.build([*head, *tail], [False] * prompt + [True] * length, "text"))
    return row_attention(lay_out(texts, row_tokens=row_tokens))


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
    attention = rows(row_tokens)
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


def test_flex_attention_equals_text_by_text_attention():
    """FlexAttention's own CPU path; on a GPU the same mask function is compiled."""
    attention, module = rows(20), torch.nn.Module().eval()
    q, k, v = (x.detach() for x in heads(attention, torch.float32))
    expected = text_by_text(attention, q, k, v).transpose(1, 2)
    with torch.compiler.set_stance("force_eager"):
        found, _ = attend("flex", module, q, k, v, None, 0.3, attention)
    seen = (attention.blocks >= 0)[:, :, None, None]
    torch.testing.assert_close(found * seen, expected * seen, rtol=0, atol=1e-5)


def texts(lengths=((40, (30, 9, 21)), (7, (60, 2)), (3, (5,)))) -> list[EncodedText]:
    draw = np.random.default_rng(0)
    found = []
    for prompt, completions in lengths:
        head = draw.integers(3, VOCABULARY, prompt)
        for length in completions:
            ids = np.concatenate([head, draw.integers(3, VOCABULARY, length)])
            found.append(EncodedText.build(ids, [False] * prompt + [True] * length, "text"))
    return found


@pytest.fixture
def flex_on_cpu(monkeypatch):
    """FlexAttention uncompiled, with its backward pass, which torch allows on GPUs only."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    with torch.compiler.set_stance("force_eager"):
        yield


def logps_and_gradients(way: str, **changes) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probs of a float32 model with heads of 16, and the gradients of their weighted sum."""
    model = tiny_model("mistral", torch.float32, hidden_size=64, sliding_window=None, **changes)
    share = share_prompts(model, way if way != "segments" else None)
    assert share == (way != "plain")
    if share:
        assert model.config._attn_implementation == NAMES[way]
    logps = completion_logps(model, lay_out(texts(), share, ROW_TOKENS))
    weights = torch.randn(len(logps), generator=torch.Generator().manual_seed(1))
    (logps * weights).sum().backward()
    return logps.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("way", ["segments", "flex"])
def test_each_way_has_the_values_and_gradients_of_the_plain_one(way, flex_on_cpu):
    expected, expected_gradients = logps_and_gradients("plain")
    found, gradients = logps_and_gradients(way)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    for name, gradient in expected_gradients.items():
        gap = (gradients[name] - gradient).abs().max() / gradient.abs().max()
        assert gap < 2e-5, name


def test_a_way_that_would_not_be_exact_is_refused():
    model = tiny_model("llama", torch.float32, attention_dropout=0.5)
    with pytest.raises(UserError, match="--attention flex is not exact for this model: attention_dropout"):
        share_prompts(model, "flex")


@pytest.mark.parametrize("family", ["mistral", "gemma3_text"])
def test_texts_that_a_sliding_window_cuts_are_refused_with_the_way_that_takes_them(family):
    model = tiny_model(family, sliding_window=20)
    assert share_prompts(model)
    with pytest.raises(UserError, match="--attention plain"):
        completion_logps(model, lay_out(texts(), True, ROW_TOKENS))
    assert not share_prompts(model, "plain")
    completion_logps(model, lay_out(texts(), False, ROW_TOKENS))


def test_a_model_on_several_devices_gets_the_rows_on_each_of_them_once():
    batch = rows()
    assert batch.to("cpu") is batch
    moved = batch.to("meta")
    assert moved is batch.to("meta") and moved.layout is batch.layout
    assert {x.device.type for x in (moved.blocks, moved.completions)} == {"meta"}


def test_lengths_within_one_block_of_tokens_are_compiled_once(monkeypatch):
    compiled = torch.compile(flex_attention.flex_attention, backend=(counter := CompileCounter()))
    monkeypatch.setattr(
        "transformers.integrations.flex_attention.WrappedFlexAttention", lambda training: lambda: compiled
    )
    torch._dynamo.reset()
    for length in (20, 70, 128, 47):
        attention = row_attention(lay_out(texts(((3, (length - 2,)),))))
        q, k, v = (torch.randn(1, heads, length, 16) for heads in (4, 2, 2))
        out, _ = attend("flex", torch.nn.Module().eval(), q, k, v, None, 0.25, attention)
        assert out.shape == (1, length, 4, 16)
    assert counter.frame_count == 1
    torch._dynamo.reset()
