"""The in-process model against the plain, slow way: HF generate and whole forward passes.

The running batch itself is tested step by step in tests/unit/models/test_transformers_local.py.
"""

import asyncio

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models.base import Sampling
from sweet_rl.models.transformers_local import TransformersModel
from tests.support.tiny_models import save_tiny_chat_model

QUESTIONS = ["hi", "how many days?", "a much longer question, about the fee of a late return?", "ok " * 30]


def user(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def ask(path: str, requests: list[tuple[list[dict], Sampling]]):
    """Completions of all requests, asked at once."""

    async def work():
        model = TransformersModel.from_pretrained(path, device="cpu")
        try:
            return await asyncio.gather(*(model.complete(messages, sampling) for messages, sampling in requests))
        finally:
            await model.close()

    return asyncio.run(work())


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_greedy_equals_generate_of_transformers_and_log_probs_a_plain_forward_pass(family, tmp_path):
    changes = {"n_positions": 2048} if family == "gpt2" else {}
    path = save_tiny_chat_model(tmp_path, family=family, initializer_range=0.2, **changes)
    greedy = [(user(q), Sampling(temperature=0, max_tokens=25)) for q in QUESTIONS]
    replies = ask(path, greedy + [(user(q), Sampling(max_tokens=25, seed=n)) for n, q in enumerate(QUESTIONS)])
    chat = TransformersModel.from_pretrained(path, device="cpu").chat
    plain = AutoModelForCausalLM.from_pretrained(path, dtype="float32").eval()
    for number, (question, (reply,)) in enumerate(zip(QUESTIONS * 2, replies, strict=True)):
        ids, _ = chat.encode(chat.prompt(user(question)))
        assert reply.prompt_tokens == len(ids)
        if number < len(QUESTIONS):
            expected = plain.generate(
                torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False, max_new_tokens=25,
                eos_token_id=list(chat.eos_ids), pad_token_id=0,
            )  # fmt: skip
            assert reply.token_ids == expected[0, len(ids) :].tolist()
        with torch.no_grad():
            logps = plain(torch.tensor([ids + reply.token_ids])).logits[0, len(ids) - 1 : -1].log_softmax(-1)
        own = logps.gather(1, torch.tensor(reply.token_ids)[:, None])[:, 0]
        assert torch.allclose(torch.tensor(reply.logprobs), own, atol=1e-4)


def test_a_finish_reason_says_whether_an_end_token_was_produced_and_training_sees_the_sampled_ids(tiny_agent):
    replies = ask(tiny_agent, [(user("go"), Sampling(seed=n, max_tokens=120)) for n in range(24)])
    chat = TransformersModel.from_pretrained(tiny_agent, device="cpu").chat
    prompt, _ = chat.encode(chat.prompt(user("go")))
    reasons = set()
    for (reply,) in replies:
        ended = [token in chat.eos_ids for token in reply.token_ids]
        assert not any(ended[:-1])
        assert reply.finish_reason == ("stop" if ended[-1] else "length")
        assert reply.finish_reason == "stop" or len(reply.token_ids) == 120
        assert reply.text == chat.tokenizer.decode(reply.token_ids[:-1] if ended[-1] else reply.token_ids)
        assert len(reply.logprobs) == len(reply.token_ids) == reply.completion_tokens
        reasons.add(reply.finish_reason)

        turn = {"role": "assistant", "content": reply.text, "token_ids": reply.token_ids}
        turn["finish_reason"] = reply.finish_reason
        ids, trained = chat.encode(chat.dialogue([*user("go"), turn]), chat.fingerprint)
        assert ids == prompt + reply.token_ids
        assert trained == [False] * len(prompt) + [True] * len(reply.token_ids)
    assert reasons == {"stop", "length"}
