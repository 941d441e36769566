"""Scores by vLLM: which log-probs are taken from its answer. tests/integration compares with a real vLLM."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from sweet_rl.errors import UserError
from sweet_rl.scoring.rows import EncodedText
from sweet_rl.scoring.vllm_logps import VLLMScorer, load_vllm_scorers


@pytest.fixture
def engines(monkeypatch) -> list[dict]:
    """The settings of each engine made; the log-prob of token t at position p is -(100 p + t)."""
    made: list[dict] = []

    class LLM:
        def __init__(self, **settings):
            made.append(settings)

        def generate(self, prompts, settings, use_tqdm):
            assert settings.prompt_logprobs == 0 and settings.max_tokens == 1
            for prompt in prompts:
                ids = enumerate(prompt["prompt_token_ids"])
                yield SimpleNamespace(
                    prompt_logprobs=[{t: SimpleNamespace(logprob=-(100.0 * p + t))} if p else None for p, t in ids]
                )

    module = ModuleType("vllm")
    module.LLM, module.SamplingParams = LLM, lambda **settings: SimpleNamespace(**settings)
    monkeypatch.setitem(sys.modules, "vllm", module)
    return made


def test_the_log_probs_are_those_of_the_trained_tokens_at_their_places(engines):
    texts = [
        EncodedText.build([5, 6, 7, 8], [False, True, False, True], "a"),
        EncodedText.build([9, 3], [False, True], "b"),
    ]
    found = VLLMScorer("model", dtype="float32")(texts)
    assert [values.tolist() for values in found] == [[-106.0, -308.0], [-103.0]]
    assert all(values.dtype == np.float32 for values in found)
    assert engines == [{"model": "model", "dtype": "float32"}]


def test_engines_share_the_memory_of_the_gpu(engines):
    critic, reference = load_vllm_scorers(["critic", None], bf16=True)
    assert reference is None and isinstance(critic, VLLMScorer)
    load_vllm_scorers(["critic", "reference"], bf16=False)
    assert [(made["model"], made["dtype"], made["gpu_memory_utilization"]) for made in engines] == [
        ("critic", "bfloat16", 0.85), ("critic", "float32", 0.425), ("reference", "float32", 0.425),
    ]  # fmt: skip


def test_without_vllm_the_error_says_what_to_leave_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="--engine vllm"):
        VLLMScorer("anywhere")
