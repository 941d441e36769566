"""Shared prompts give exactly what one plain forward pass per text gives, gradients included."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from sweet_rl.models.log_probs import projection
from sweet_rl.models.log_probs.attention import FAMILIES, share_prompts
from sweet_rl.models.log_probs.logps import batches_by_tokens, completion_logps, score_texts
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import VOCABULARY, tiny_model


def dialogue_texts(seed: int = 0) -> list[EncodedText]:
    """Two prompts; five completions of the first (one twice, one of a single token, two of several
    turns), one of the second."""
    rng = np.random.default_rng(seed)
    prompt, other = rng.integers(3, VOCABULARY, 17), rng.integers(3, VOCABULARY, 5)
    texts = []
    for head, tail in (
        (prompt, "TTT"), (prompt, "TTTTgggTTgT"), (prompt, "T"), (prompt, "TTTTTTgT"), (other, "TTTTgTT"),
    ):  # fmt: skip
        ids = np.concatenate([head, rng.integers(3, VOCABULARY, len(tail))])
        train = [False] * len(head) + [mark == "T" for mark in tail]
        texts.append(EncodedText.build(ids, train, "text"))
    return [*texts[:2], texts[0], *texts[2:]]


def plain_logps(model, texts) -> torch.Tensor:
    """One text at a time, through every position and the whole vocabulary."""
    out = []
    for text in texts:
        ids = torch.from_numpy(text.ids)
        logps = model(input_ids=ids[None]).logits[0].log_softmax(-1)
        out.append(logps[torch.from_numpy(text.targets - 1), ids[text.targets]])
    return torch.cat(out)


def sharing_model(family: str, **changes) -> torch.nn.Module:
    model = tiny_model(family, **changes)
    assert share_prompts(model)
    return model


def assert_equal_to_the_plain_way(family: str, row_tokens: int, **changes) -> None:
    model = tiny_model(family, **changes)
    texts = dialogue_texts()
    expected = plain_logps(model, texts)
    weights = torch.randn(len(expected), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (expected * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()

    assert share_prompts(model)
    found = completion_logps(model, lay_out(texts, row_tokens=row_tokens))
    (found * weights).sum().backward()

    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "family, row_tokens", [("llama", 1), ("llama", 2048), *((family, 30) for family in sorted(FAMILIES))]
)
def test_shared_prompts_equal_one_pass_per_text_in_values_and_gradients(family, row_tokens):
    assert_equal_to_the_plain_way(family, row_tokens)


def test_log_probs_in_many_chunks_are_those_of_one(monkeypatch):
    monkeypatch.setattr(projection, "CHUNK_TOKENS", 1)
    monkeypatch.setattr(projection, "CHUNK_ELEMENTS", 3 * VOCABULARY)
    assert_equal_to_the_plain_way("llama", 2048)


@pytest.mark.parametrize("family, changes", [
    ("llama", {"attn_implementation": "eager"}),
    ("gemma2", {"head_dim": 8, "attn_implementation": "eager"}),
    ("gpt2", {"n_head": 4}),
])  # fmt: skip
def test_whatever_the_family_scores_equal_the_plain_way(family, changes):
    model = tiny_model(family, **changes)
    texts = dialogue_texts()
    with torch.no_grad():
        expected = plain_logps(model, texts).numpy()
    found = np.concatenate(score_texts(model, texts, token_budget=40))
    np.testing.assert_allclose(found, expected, atol=1e-4)  # eager attention and Gemma's norms round to float32


@pytest.mark.parametrize("family, changes, reason", [
    ("llama", {"attn_implementation": "eager"}, "eager"),
    ("gpt2", {"n_head": 4}, "gpt2"),
    ("qwen2", {"attention_dropout": 0.1}, "attention_dropout"),
])  # fmt: skip
def test_attention_that_does_not_allow_it_is_computed_the_plain_way_and_the_warning_says_why(
    family, changes, reason, caplog
):
    model = tiny_model(family, **changes)
    with caplog.at_level(logging.WARNING):
        assert not share_prompts(model)
    assert "not shared" in caplog.text and reason in caplog.text


def test_a_model_that_was_not_switched_is_refused_instead_of_seeing_too_much():
    with pytest.raises(ValueError, match="share_prompts"):
        completion_logps(tiny_model("llama"), lay_out(dialogue_texts()))


def test_the_vocabulary_is_projected_only_where_a_token_is_scored_and_in_chunks(monkeypatch):
    model = sharing_model("llama")
    seen, project = [], model.lm_head.forward
    monkeypatch.setattr(model.lm_head, "forward", lambda hidden: seen.append(len(hidden)) or project(hidden))
    texts = dialogue_texts()
    completion_logps(model, lay_out(texts))
    assert seen == [sum(len(text.targets) for text in texts)]
    monkeypatch.setattr(projection, "CHUNK_ELEMENTS", VOCABULARY)
    monkeypatch.setattr(projection, "CHUNK_TOKENS", 4)
    completion_logps(model, lay_out(texts))
    assert sum(seen[1:]) == seen[0] and max(seen[1:]) == 4


def test_a_batch_has_its_tokens_with_a_shared_prompt_counted_once():
    """The texts have 20, 28, 20, 18 and 25 tokens, 17 of them the prompt, and one of another prompt has 12."""
    texts = dialogue_texts()
    assert batches_by_tokens(texts, 30) == [[5], [0], [1], [2, 3, 4]]  # 12; 20; 28; 20 + 1 + 8
    assert batches_by_tokens(texts, 10) == [[5], [0], [1], [2], [3], [4]]


def test_equal_texts_are_scored_once_and_returned_for_each():
    model = tiny_model("llama")
    texts = dialogue_texts()
    done = []
    scores = score_texts(model, texts, progress=done.append)
    assert sum(done) == len(texts) - 1
    np.testing.assert_array_equal(scores[0], scores[2])


def texts_of(*lengths: int) -> list[EncodedText]:
    """A text of each length, of which the last seven tokens are trained."""
    rng = np.random.default_rng(1)
    return [
        EncodedText.build(rng.integers(3, VOCABULARY, length), [False] * (length - 7) + [True] * 7, "text")
        for length in lengths
    ]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_text_beyond_the_context_is_refused_and_one_that_fills_it_is_not(family):
    model = tiny_model(family, max_position_embeddings=64)
    assert len(score_texts(model, texts_of(64))[0]) == 7
    with pytest.raises(UserError, match=f"a text for {family}: .* tokens, but the context of the model has 64"):
        score_texts(model, texts_of(70, 20))
