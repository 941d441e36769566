"""The in-process model against the plain, slow way: HF generate, whole forward passes, one dialogue at a
time."""

import asyncio

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.generator import TransformersModel
from tests.support.tiny_models import save_tiny_chat_model

QUESTIONS = ["hi", "how many days?", "a much longer question, about the fee of a late return?", "ok " * 30]


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2"])
def path(request, tmp_path_factory):
    changes = {"n_positions": 2048} if request.param == "gpt2" else {}
    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny"), family=request.param, initializer_range=0.2, **changes)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return save_tiny_chat_model(tmp_path_factory.mktemp("llama"), initializer_range=0.2)


def user(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def ask(path: str, requests: list[tuple[list[dict], Sampling]], together: bool = True, **settings):
    """Completions of all requests, asked at once or one after the other."""

    async def work():
        model = TransformersModel.from_pretrained(path, device="cpu", **settings)
        try:
            if together:
                return await asyncio.gather(*(model.complete(messages, sampling) for messages, sampling in requests))
            return [await model.complete(messages, sampling) for messages, sampling in requests]
        finally:
            await model.close()

    return asyncio.run(work())


def test_greedy_equals_generate_of_transformers(path):
    replies = ask(path, [(user(q), Sampling(temperature=0, max_tokens=40)) for q in QUESTIONS])
    model = TransformersModel.from_pretrained(path, device="cpu")
    plain = AutoModelForCausalLM.from_pretrained(path, dtype="float32").eval()
    for question, (reply,) in zip(QUESTIONS, replies, strict=True):
        ids, _ = model.chat.encode(model.chat.prompt(user(question)))
        expected = plain.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False, max_new_tokens=40,
            eos_token_id=list(model.chat.eos_ids), pad_token_id=0,
        )  # fmt: skip
        assert reply.token_ids == expected[0, len(ids) :].tolist()
        assert reply.prompt_tokens == len(ids)


def test_log_probs_equal_a_plain_forward_pass(path):
    replies = ask(path, [(user(q), Sampling(max_tokens=30, seed=n)) for n, q in enumerate(QUESTIONS)])
    model = TransformersModel.from_pretrained(path, device="cpu")
    plain = AutoModelForCausalLM.from_pretrained(path, dtype="float32").eval()
    for question, (reply,) in zip(QUESTIONS, replies, strict=True):
        ids, _ = model.chat.encode(model.chat.prompt(user(question)))
        with torch.no_grad():
            logps = plain(torch.tensor([ids + reply.token_ids])).logits[0, len(ids) - 1 : -1].log_softmax(-1)
        expected = logps.gather(1, torch.tensor(reply.token_ids)[:, None])[:, 0]
        assert torch.allclose(torch.tensor(reply.logprobs), expected, atol=1e-4)


def test_replies_do_not_depend_on_batch_company(llama):
    requests = [
        (
            user(QUESTIONS[n % 4]),
            Sampling(max_tokens=5 + 3 * n, seed=n, temperature=0.5 + 0.1 * n, top_p=1 - 0.02 * n),
        )
        for n in range(12)
    ]
    alone = ask(llama, requests, together=False)
    crowded = ask(llama, requests)
    narrow = ask(llama, list(reversed(requests)), max_rows=3, prefill_tokens=64)
    for one, many, few in zip(alone, crowded, reversed(narrow), strict=True):
        assert one[0].token_ids == many[0].token_ids == few[0].token_ids
        assert torch.allclose(torch.tensor(one[0].logprobs), torch.tensor(many[0].logprobs), atol=1e-4)


def test_n_candidates_are_n_single_samples_with_the_following_seeds(llama):
    (many,) = ask(llama, [(user("how many?"), Sampling(n=6, seed=40, max_tokens=25))])
    singles = ask(llama, [(user("how many?"), Sampling(seed=40 + i, max_tokens=25)) for i in range(6)])
    assert [reply.token_ids for reply in many] == [single.token_ids for (single,) in singles]
    assert len({reply.text for reply in many}) == 6


def test_another_seed_gives_another_reply_and_the_same_seed_the_same(llama):
    first, again, other = ask(llama, [(user("how many?"), Sampling(seed=s, max_tokens=25)) for s in (1, 1, 2)])
    assert first[0].token_ids == again[0].token_ids != other[0].token_ids


def test_the_prompt_is_computed_once_for_all_candidates(llama):
    widths = []

    async def work():
        model = TransformersModel.from_pretrained(llama, device="cpu")
        model.engine.model.register_forward_pre_hook(
            lambda _, args, inputs: widths.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
        )
        (*_, last) = await model.complete(user("how many?"), Sampling(n=16, max_tokens=4))
        await model.close()
        return last.prompt_tokens

    prompt_tokens = asyncio.run(work())
    assert [width for width in widths if width[1] > 1] == [(1, prompt_tokens)]


def test_stop_means_that_an_end_token_was_produced_and_length_that_none_was(llama):
    replies = ask(llama, [(user("go"), Sampling(seed=n, max_tokens=120)) for n in range(40)])
    model = TransformersModel.from_pretrained(llama, device="cpu")
    reasons = set()
    for (reply,) in replies:
        ended = [token in model.chat.eos_ids for token in reply.token_ids]
        assert not any(ended[:-1])
        assert reply.finish_reason == ("stop" if ended[-1] else "length")
        assert reply.finish_reason == "stop" or len(reply.token_ids) == 120
        assert reply.text == model.chat.tokenizer.decode(reply.token_ids[:-1] if ended[-1] else reply.token_ids)
        assert len(reply.logprobs) == len(reply.token_ids) == reply.completion_tokens
        reasons.add(reply.finish_reason)
    assert reasons == {"stop", "length"}


def test_training_sees_exactly_the_sampled_ids(llama):
    model = TransformersModel.from_pretrained(llama, device="cpu")
    for n, (reply,) in enumerate(ask(llama, [(user("go"), Sampling(seed=s, max_tokens=60)) for s in range(12)])):
        turn = {
            "role": "assistant",
            "content": reply.text,
            "token_ids": reply.token_ids,
            "finish_reason": reply.finish_reason,
        }
        ids, trained = model.chat.encode(model.chat.dialogue([*user("go"), turn]), model.chat.fingerprint)
        prompt, _ = model.chat.encode(model.chat.prompt(user("go")))
        assert ids == prompt + reply.token_ids, n
        assert trained == [False] * len(prompt) + [True] * len(reply.token_ids)


def test_a_prompt_beyond_the_context_is_refused_and_a_reply_ends_at_it(tmp_path):
    path = save_tiny_chat_model(tmp_path, max_position_embeddings=64)
    with pytest.raises(ModelError) as error:
        ask(path, [(user("x" * 100), Sampling())])
    assert error.value.kind == "context" and not error.value.retryable
    ((reply,),) = ask(path, [(user("x" * 50), Sampling(seed=3, max_tokens=500))])
    assert reply.prompt_tokens + reply.completion_tokens <= 64


def test_little_memory_means_fewer_rows_not_other_replies(llama):
    requests = [(user(QUESTIONS[n % 4]), Sampling(max_tokens=20, seed=n)) for n in range(10)]
    assert [r[0].token_ids for r in ask(llama, requests, cache_bytes=1)] == [
        r[0].token_ids for r in ask(llama, requests)
    ]


def test_an_error_of_the_model_reaches_those_who_wait_and_the_next_call_works(llama):
    async def work():
        model = TransformersModel.from_pretrained(llama, device="cpu")
        forward, model.engine.model.forward = model.engine.model.forward, None
        with pytest.raises(ModelError) as error:
            await model.complete(user("hi"), Sampling(max_tokens=3))
        model.engine.model.forward = forward
        (reply,) = await model.complete(user("hi"), Sampling(max_tokens=3))
        await model.close()
        return error.value.kind, reply

    kind, reply = asyncio.run(work())
    assert kind == "engine" and reply.completion_tokens <= 3
