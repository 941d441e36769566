"""The running batch, driven step by step, against one row at a time."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.transformers_local.engine import GenerationEngine
from sweet_rl.models.transformers_local.requests import Request

PROMPTS = [[5, 6, 7], [8] * 20, [9, 10], [11] * 7]


@pytest.fixture(scope="module")
def model(tiny_agent):
    return AutoModelForCausalLM.from_pretrained(tiny_agent, dtype="float32").eval()


def generate(model, asked, eos_ids=(3,), **settings):
    """The results of (prompt, sampling) pairs that are submitted together, in order."""
    return together(GenerationEngine(model, set(eos_ids), **settings), asked)


def together(engine, asked):
    results = {}
    for place, (ids, sampling) in enumerate(asked):
        engine.submit(Request(ids, sampling, lambda result, place=place: results.setdefault(place, result)))
    while engine.busy:
        engine.step()
    return [results[place] for place in range(len(asked))]


def asked():
    return [
        (PROMPTS[n % 4], Sampling(0.7 + 0.1 * n, 1 - 0.03 * (n % 3), max_tokens=4 + 3 * n, seed=n)) for n in range(8)
    ]


@pytest.fixture(scope="module")
def alone(model):
    return [generate(model, [one])[0] for one in asked()]


@pytest.mark.parametrize(
    "settings", [{}, {"max_rows": 3, "prefill_tokens": 8}, {"cache_bytes": 1}], ids=["all", "few rows", "no memory"]
)
def test_a_row_does_not_depend_on_the_rows_beside_it(model, alone, settings):
    for (own,), (many,) in zip(alone, generate(model, asked(), **settings), strict=True):
        assert own.token_ids == many.token_ids
        assert torch.allclose(torch.tensor(own.logprobs), torch.tensor(many.logprobs), atol=1e-4)


def test_samples_of_one_request_have_consecutive_seeds_and_differ(model):
    (many,) = generate(model, [(PROMPTS[0], Sampling(n=4, seed=7, max_tokens=15))])
    singles = generate(model, [(PROMPTS[0], Sampling(seed=7 + n, max_tokens=15)) for n in range(4)])
    assert [one.token_ids for one in many] == [single.token_ids for (single,) in singles]
    assert len({tuple(one.token_ids) for one in many}) == 4


def test_a_row_ends_at_an_end_token_or_at_its_limit(model):
    (free,) = generate(model, [(PROMPTS[1], Sampling(temperature=0, max_tokens=9))], eos_ids=())[0]
    assert len(free.token_ids) == len(free.logprobs) == 9 and free.finish_reason == "length"
    end = free.token_ids[3]
    (stopped,) = generate(model, [(PROMPTS[1], Sampling(temperature=0, max_tokens=9))], eos_ids={end})[0]
    assert stopped.finish_reason == "stop"
    assert stopped.token_ids == free.token_ids[: free.token_ids.index(end) + 1]


def test_an_empty_prompt_and_one_beyond_the_context_are_refused(model):
    engine = GenerationEngine(model, {3})
    for ids in ([], [5] * engine.context):
        with pytest.raises(ModelError) as error:
            engine.submit(Request(ids, Sampling(), lambda result: None))
        assert error.value.kind == "context" and not error.value.retryable and not engine.busy
    ((made,),) = generate(model, [([5] * (engine.context - 2), Sampling(max_tokens=9))], eos_ids=())
    assert len(made.token_ids) == 2


def test_an_error_is_delivered_once_to_every_request_in_progress_or_waiting(model):
    engine, results = GenerationEngine(model, {3}, max_rows=2), []
    for seed in range(3):
        engine.submit(Request(PROMPTS[0], Sampling(n=2, seed=seed, max_tokens=500), results.append))
    engine.step()
    error = ModelError("engine", "closed")
    engine.fail_all(error)
    assert results.count(error) == 3 - sum(isinstance(one, list) for one in results) and len(results) == 3
    assert not engine.busy
