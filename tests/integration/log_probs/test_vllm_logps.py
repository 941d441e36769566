"""vLLM's prompt log-probs are those of the shared-prompt pass; only where vLLM is installed."""

from __future__ import annotations

import numpy as np
import pytest

from sweet_rl.log_probs.logps import score_texts
from sweet_rl.log_probs.rows import EncodedText
from sweet_rl.model_loading import load_frozen
from tests.support.tiny_models import save_tiny_chat_model


def texts() -> list[EncodedText]:
    draw = np.random.default_rng(0)
    prompt = draw.integers(3, 200, 40)
    return [
        EncodedText.build(np.concatenate([prompt, draw.integers(3, 200, n)]), [False] * 40 + [True] * n, "text")
        for n in (1, 5, 9)
    ]


@pytest.mark.slow
def test_vllm_scores_as_the_shared_pass_does(tmp_path):
    pytest.importorskip("vllm")
    from sweet_rl.log_probs.vllm_logps import VLLMScorer

    path = save_tiny_chat_model(tmp_path / "model", hidden_size=128, intermediate_size=128)
    scorers = [VLLMScorer(path, dtype="float32", enforce_eager=True) for _ in range(2)]
    scorers[0].others, scorers[1].others = scorers[1:], scorers[:1]
    expected = score_texts(load_frozen(path, device="cpu"), texts())
    for scorer in (*scorers, scorers[0]):  # one engine after the other, and the first one again
        for one, other in zip(scorer(texts()), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-3)
    for scorer in scorers:
        scorer.stop()
