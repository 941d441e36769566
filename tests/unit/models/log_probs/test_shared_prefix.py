"""`--attention`: the ways agree, one that does not work is replaced or refused, and flex compiles few lengths."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import flex_attention

from sweet_rl.models.log_probs import attend, shared_prefix
from sweet_rl.models.log_probs.attend import NAMES, attend_flex
from sweet_rl.models.log_probs.logps import ROW_TOKENS, completion_logps
from sweet_rl.models.log_probs.row_attention import RowAttention
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.models.log_probs.shared_prefix import share_prompts
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import VOCABULARY, tiny_model


def texts(lengths=((40, (30, 9, 21)), (7, (60, 2)), (3, (5,)))) -> list[EncodedText]:
    draw = np.random.default_rng(0)
    found = []
    for prompt, completions in lengths:
        head = draw.integers(3, VOCABULARY, prompt)
        for length in completions:
            ids = np.concatenate([head, draw.integers(3, VOCABULARY, length)])
            found.append(EncodedText.build(ids, [False] * prompt + [True] * length, "text"))
    return found


@pytest.fixture(autouse=True)
def untried():
    """What was tried in another test is forgotten."""
    shared_prefix._working_way.cache_clear()
    yield
    shared_prefix._working_way.cache_clear()


@pytest.fixture
def flex_on_cpu(monkeypatch):
    """FlexAttention uncompiled, with its backward pass, which torch allows on GPUs only."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    with torch.compiler.set_stance("force_eager"):
        yield


def logps_and_gradients(way: str, **changes) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probs of a float32 model with heads of 16, and the gradients of their weighted sum."""
    model = tiny_model("mistral", torch.float32, hidden_size=64, sliding_window=None, **changes)
    share = share_prompts(model, way if way != "segments" else None, backward=True)
    assert share == (way != "plain")
    if share:
        assert model.config._attn_implementation == NAMES[way]
    logps = completion_logps(model, lay_out(texts(), share, ROW_TOKENS))
    weights = torch.randn(len(logps), generator=torch.Generator().manual_seed(1))
    (logps * weights).sum().backward()
    return logps.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("way", ["segments", "masked", "flex"])
def test_each_way_has_the_values_and_gradients_of_the_plain_one(way, flex_on_cpu):
    expected, expected_gradients = logps_and_gradients("plain")
    found, gradients = logps_and_gradients(way)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    for name, gradient in expected_gradients.items():
        gap = (gradients[name] - gradient).abs().max() / gradient.abs().max()
        assert gap < 2e-5, name


@pytest.mark.parametrize(
    "backward, reason", [(True, "FlexAttention does not support backward on CPU"), (False, "No working C++ compiler")]
)
def test_a_usual_way_that_does_not_work_is_replaced_with_one_line_for_all_models(backward, reason, monkeypatch, caplog):
    monkeypatch.setitem(shared_prefix.USUAL, "cpu", "flex")
    torch._dynamo.reset()
    without_compiler = torch._inductor.config.patch({"cpp.cxx": ("no-such-g++",), "fx_graph_cache": False})
    with caplog.at_level(logging.WARNING), without_compiler:
        for _ in range(2):
            model = tiny_model("llama", torch.float32, hidden_size=64)
            assert share_prompts(model, backward=backward)
            assert model.config._attn_implementation == NAMES["masked"]
    (line,) = [text for text in caplog.messages if "--attention" in text]
    assert "--attention masked is taken" in line and "flex does not work here" in line and reason in line
    torch._dynamo.reset()


def test_a_way_that_was_asked_for_and_does_not_work_is_refused():
    with pytest.raises(UserError, match="--attention flex does not work here: .*CPU"):
        share_prompts(tiny_model("llama", torch.float32, hidden_size=64), "flex", backward=True)
    model = tiny_model("llama", torch.float32, attention_dropout=0.5)
    with pytest.raises(UserError, match="--attention masked is not exact for this model: attention_dropout"):
        share_prompts(model, "masked")


@pytest.mark.parametrize("mistake", ["completions that see each other", "not causal"])
def test_a_way_with_wrong_numbers_does_not_work(mistake, monkeypatch, flex_on_cpu):
    right = RowAttention.mask_mod

    def wrong(self, window=None):
        if mistake == "not causal":
            return lambda row, head, q, k: self.blocks[row, k] == self.blocks[row, q]
        return lambda row, head, q, k: (k <= q) & (self.blocks[row, k] == self.blocks[row, q])

    def attend_wrongly(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(RowAttention, "mask_mod", wrong)
            return attend_flex(*arguments)

    monkeypatch.setattr(attend, "attend_flex", attend_wrongly)
    model = tiny_model("llama", torch.float32, hidden_size=64)
    with pytest.raises(UserError, match="its numbers are wrong"):
        share_prompts(model, "flex", backward=True)
    assert RowAttention.mask_mod is right


def test_plain_takes_back_what_was_shared():
    model = tiny_model("llama")
    assert share_prompts(model)
    assert not share_prompts(model, "plain")
    completion_logps(model, lay_out(texts(), False, ROW_TOKENS))


def test_lengths_within_one_block_of_tokens_are_compiled_once(monkeypatch):
    compiled = torch.compile(flex_attention.flex_attention, backend=(counter := CompileCounter()))
    monkeypatch.setattr(
        "transformers.integrations.flex_attention.WrappedFlexAttention", lambda training: lambda: compiled
    )
    torch._dynamo.reset()
    for length in (20, 70, 128, 47):
        batch = lay_out(texts(((3, (length - 2,)),)))
        rows = RowAttention(*(batch[name] for name in ("layout", "blocks", "completions", "position_ids")))
        q, k, v = (torch.randn(1, heads, length, 16) for heads in (4, 2, 2))
        out, _ = attend_flex(torch.nn.Module().eval(), q, k, v, rows, 0.25)
        assert out.shape == (1, length, 4, 16)
    assert counter.frame_count == 1
    torch._dynamo.reset()
