"""vLLM in this process: what it samples and returns; only where vLLM is installed."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from sweet_rl.models.base import Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.settings import ModelSettings
from sweet_rl.models.weights import load_frozen
from tests.support.tiny_models import save_tiny_chat_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    pytest.importorskip("vllm")
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"), hidden_size=128, intermediate_size=128)


def test_the_log_probs_of_sampled_tokens_are_those_of_the_model(model):
    async def sample():
        settings = ModelSettings(engine="vllm", engine_settings={"enforce_eager": True, "dtype": "float32"})
        loaded = load_model(model, settings)
        try:
            await loaded.check()
            ids, _ = loaded.chat.encode(loaded.chat.prompt([{"role": "user", "content": "a function please"}]))
            return ids, await loaded.complete(ids, Sampling(n=3, max_tokens=12))
        finally:
            await loaded.close()

    ids, replies = asyncio.run(sample())
    texts = [
        EncodedText.build([*ids, *one.token_ids], [False] * len(ids) + [True] * len(one.token_ids), "reply")
        for one in replies
    ]
    for one, expected in zip(replies, score_texts(load_frozen(model, device="cpu"), texts), strict=True):
        np.testing.assert_allclose(one.logprobs, expected, atol=1e-3)
    assert len({tuple(one.token_ids) for one in replies}) == 3
