"""vLLM in this process: what it samples and returns, and ranking in several processes; only where vLLM is installed."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from sweet_rl.log_probs.logps import score_texts
from sweet_rl.log_probs.rows import EncodedText
from sweet_rl.model_loading import load_frozen
from sweet_rl.models.base import Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import ModelSettings
from tests.support.command_line import call_process, read_rows, write_rows
from tests.support.tiny_models import save_tiny_chat_model

pytestmark = pytest.mark.slow
TASK = {"problem_description": "fee", "ground_truth": "def fee(x): return 2 * x", "test_cases": {}}


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
            prompt = loaded.chat.prompt([{"role": "user", "content": "a function please"}])
            return loaded.chat.encode(prompt)[0], await loaded.complete_parts(prompt, Sampling(n=3, max_tokens=12))
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


def test_two_processes_rank_a_part_each_and_end(model, tmp_path):
    rows = [
        {"id": f"t-{n}", "task": TASK, "turn": n, "input": "<|bos|><|user|>help<|end|><|assistant|>",
         "older_output": "old", "additional_outputs": ["yes", "no", "what" * n],
         "additional_reference_logprobs": [-1.0, -2.0, -3.0]}
        for n in (1, 2)
    ]  # fmt: skip
    flags = {
        "model_id": model, "reference": "sampled",
        "input_path": write_rows(tmp_path / "candidates.jsonl", rows),
    }  # fmt: skip
    scores = []
    for engine, processes in (("vllm", 2), ("transformers", 1)):
        out = tmp_path / f"{engine}.jsonl"
        done = call_process("rank_best_of_n.py", **flags, output_path=out, engine=engine, processes=processes)
        assert done.code == 0, done.err
        scores.append([row["judge_scores"] for row in read_rows(out)])
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)
