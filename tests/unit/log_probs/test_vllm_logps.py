"""Scores by vLLM: which log-probs are taken from its answer. tests/integration compares with a real vLLM."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from sweet_rl.errors import UserError
from sweet_rl.log_probs.rows import EncodedText
from sweet_rl.log_probs.vllm_logps import CACHE, SHARE_OF_MEMORY, VLLMScorer, load_vllm_scorers, shares_of
from sweet_rl.model_loading import parameter_count


@pytest.fixture
def model(tiny_chat_model) -> str:
    return tiny_chat_model


@pytest.fixture
def engines(monkeypatch) -> list[dict]:
    """The settings of each engine made; the log-prob of token t at position p is -(100 p + t)."""
    made: list[dict] = []

    class LLM:
        def __init__(self, **settings):
            made.append(settings)
            core = SimpleNamespace(shutdown=lambda: made.append({"stopped": settings["model"]}))
            self.llm_engine = SimpleNamespace(engine_core=core)

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


def test_the_log_probs_are_those_of_the_trained_tokens_at_their_places(engines, model):
    texts = [
        EncodedText.build([5, 6, 7, 8], [False, True, False, True], "a"),
        EncodedText.build([9, 3], [False, True], "b"),
    ]
    found = VLLMScorer(model, dtype="float32")(texts)
    assert [values.tolist() for values in found] == [[-106.0, -308.0], [-103.0]]
    assert all(values.dtype == np.float32 for values in found)
    assert engines == [{"model": model, "dtype": "float32", "max_model_len": 1024, "max_num_batched_tokens": 2048}]


def text_of(length: int) -> EncodedText:
    return EncodedText.build([1] * length, [False] * (length - 1) + [True], "a text")


def test_an_engine_is_made_for_the_longest_text_and_again_only_for_longer_ones(engines, model):
    scorer = VLLMScorer(model)
    for length in (7, 1023, 1024, 9, 2047):
        scorer([text_of(5), text_of(length)])
    # With the token that is sampled; 2048 is the most that the model takes.
    assert [made.get("max_model_len", "stopped") for made in engines] == [1024, "stopped", 2048]


def test_engines_that_do_not_fit_beside_each_other_take_turns(engines, model):
    one, other = VLLMScorer(model), VLLMScorer(model)
    one.others, other.others = [other], [one]
    for scorer in (one, other, other, one):
        scorer([text_of(5)])
    assert ["stopped" in made for made in engines] == [False, True, False, True, False]


def test_engines_share_the_memory_of_the_gpu_by_their_weights(model):
    weights = parameter_count(model) * 2
    gpu = int((2 * weights + 2 * CACHE + 1e9) / SHARE_OF_MEMORY)
    assert shares_of([model], 2, [gpu]) == [pytest.approx(SHARE_OF_MEMORY)]
    assert shares_of([model] * 2, 2, [gpu]) == [pytest.approx(SHARE_OF_MEMORY / 2)] * 2
    # Half of the memory holds one engine, but not two: each gets all of it, in turns.
    assert shares_of([model] * 2, 2, [gpu // 2 + 10**9]) == [SHARE_OF_MEMORY] * 2
    with pytest.raises(UserError, match="needs about 8 GB"):
        shares_of([model], 2, [int(CACHE)])


def test_without_vllm_the_error_says_what_to_leave_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="--engine vllm"):
        VLLMScorer("anywhere")


def test_scorers_have_the_precision_that_was_asked_for(engines, model, monkeypatch):
    monkeypatch.setattr("sweet_rl.log_probs.vllm_logps.gpu_memory", lambda: [])
    for bf16, dtype in ((False, "float32"), (True, "bfloat16")):
        engines.clear()
        one, other = load_vllm_scorers([model, model], bf16)
        one([text_of(5)])
        assert one is not other and engines[0]["dtype"] == dtype
        assert engines[0]["gpu_memory_utilization"] == pytest.approx(SHARE_OF_MEMORY / 2)
