"""The running batch, driven step by step, against one row at a time."""

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.transformers_local.engine import GenerationEngine
from sweet_rl.models.transformers_local.requests import Request, Row
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import tiny_model
from tests.unit.models.log_probs.test_logps import model_of_lengths

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


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_rounding_in_a_batch_does_not_decide_a_token_at_an_edge(model, monkeypatch, temperature):
    own = copy.deepcopy(model)
    prompt = torch.tensor([PROMPTS[0]])
    with torch.no_grad():
        best = int(own(prompt).logits[0, -1].argmax())
        other = 40 if best < 40 else 20
        own.lm_head.weight[other] = own.lm_head.weight[best]  # no logit is larger than these two, which are equal
        edges = copy.deepcopy(own).double()(prompt).logits[0, -1].softmax(-1).cumsum(-1)

    class AtAnEdge(Row):
        def __init__(self, *args):
            super().__init__(*args)
            self.uniforms[0] = float(edges[len(edges) // 2])

    monkeypatch.setattr("sweet_rl.models.transformers_local.engine.Row", AtAnEdge)
    slope = 2e-5 * torch.linspace(-1, 1, len(edges))
    tokens = []
    for rounding in (slope, -slope):
        engine = GenerationEngine(own, {3})
        forward = engine._forward
        monkeypatch.setattr(engine, "_forward", lambda *args, add=rounding, plain=forward: plain(*args) + add)
        ((made,),) = together(engine, [(PROMPTS[0], Sampling(temperature, max_tokens=1))])
        tokens += made.token_ids
    assert tokens[0] == tokens[1]


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


def test_a_later_turn_computes_only_its_new_tokens_and_is_as_if_computed_whole(model, monkeypatch):
    first = [(PROMPTS[n], Sampling(seed=n, max_tokens=12)) for n in range(4)]
    ends = {made[0].token_ids[4] for made in generate(model, first, eos_ids=())}
    engine = GenerationEngine(model, ends)
    shapes, forward = [], engine._forward
    monkeypatch.setattr(engine, "_forward", lambda *args: shapes.append(list(map(len, args[1]))) or forward(*args))
    replies = together(engine, first)
    later = [
        ([*ids, *made.token_ids, 12, 13], Sampling(seed=9 + n, max_tokens=12))
        for n, ((ids, _), (made,)) in enumerate(zip(first, replies, strict=True))
    ]
    assert all(made.finish_reason == "stop" for (made,) in replies)
    shapes.clear()
    found, expected = together(engine, later), generate(model, later, eos_ids=ends)
    assert shapes[0] == [3, 3, 3, 3]  # the token that ended the reply, and two more
    for (own,), (whole,) in zip(found, expected, strict=True):
        assert own.token_ids == whole.token_ids
        assert torch.allclose(torch.tensor(own.logprobs), torch.tensor(whole.logprobs), atol=1e-4)


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


def test_memory_that_lacks_for_some_layers_fails_one_batch_and_no_later_one(model, monkeypatch):
    long = ([5] * 100, Sampling(n=3, max_tokens=4))
    ((*expected,),) = generate(model, [long])
    engine, new_zeros, calls = GenerationEngine(model, {3}), torch.Tensor.new_zeros, []

    def lacking(*args):
        calls.append(args)
        if len(calls) == 3:  # keys and values of the first layer are there
            raise torch.OutOfMemoryError
        return new_zeros(*args)

    engine.submit(Request(*long, lambda result: None))
    with monkeypatch.context() as patch, pytest.raises(torch.OutOfMemoryError):
        patch.setattr(torch.Tensor, "new_zeros", lacking)
        engine.step()
    engine.fail_all(ModelError("engine", "no memory"))
    ((*found,),) = together(engine, [long])
    assert found == expected


def plain_logps(made, prompt, ids):
    """The log-prob of each sampled token after a forward pass over all that stands before it, by a model of its own."""
    found = []
    for place, token in enumerate(ids):
        with torch.no_grad():
            logits = made()(torch.tensor([[*prompt, *ids[:place]]])).logits[0, -1]
        found.append(logits.float().log_softmax(-1)[token].item())
    return torch.tensor(found)


@pytest.mark.parametrize("kind", ["phi3", "dynamic"])
def test_rows_that_cross_the_original_context_disturb_no_other_and_are_computed_again(kind):
    lengths = (20, 58, 64, 100, 61)
    asked = [(list(range(3, 3 + n % 50)) + [7] * (n - n % 50), Sampling(max_tokens=10, seed=n)) for n in lengths]
    for (ids, _), (own,) in zip(asked, generate(model_of_lengths(kind).float(), asked, eos_ids=()), strict=True):
        expected = plain_logps(lambda: model_of_lengths(kind).float(), ids, own.token_ids)
        assert torch.allclose(torch.tensor(own.logprobs), expected, atol=1e-4)


WINDOWS = {
    "mistral": {"sliding_window": 6},
    "phi3": {"sliding_window": 6},
    "qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    "gemma3_text": {"head_dim": 8, "sliding_window": 6},
    "llama4_text": {"head_dim": 8, "attention_chunk_size": 6, "num_local_experts": 2, "intermediate_size_mlp": 48},
}


@pytest.mark.parametrize("family", WINDOWS)
def test_a_window_is_no_end_of_the_context_and_is_kept(family):
    made = tiny_model(family, torch.float32, **WINDOWS[family])
    asked = [([5, 9, 11, 8] * n, Sampling(max_tokens=8, seed=n)) for n in (1, 4, 9)]
    for (ids, _), (own,) in zip(asked, generate(made, asked, eos_ids=()), strict=True):
        assert torch.allclose(torch.tensor(own.logprobs), plain_logps(lambda: made, ids, own.token_ids), atol=1e-4)


@pytest.mark.parametrize("family, changes", [
    ("bloom", {"n_head": 4, "attn_implementation": "eager"}),  # positions by a mask of two dimensions
    ("mamba", {"attn_implementation": "eager"}),
    ("qwen3_next", {"head_dim": 8, "num_experts": 2, "moe_intermediate_size": 16, "num_hidden_layers": 4,
                    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
                    "linear_value_head_dim": 8, "shared_expert_intermediate_size": 16}),
    ("minimax", {"head_dim": 8, "num_local_experts": 2, "layer_types": ["linear_attention", "full_attention"]}),
])  # fmt: skip
def test_a_model_whose_rows_cannot_share_a_batch_is_refused_with_the_way_out(family, changes):
    with pytest.raises(UserError, match="ForCausalLM .* Serve it instead .* --hostname"):
        GenerationEngine(tiny_model(family, torch.float32, **changes), {2})


@pytest.mark.parametrize("passes", [0, 1])  # that finds the shapes, and those that compare the logits
def test_a_device_without_memory_is_named_and_not_taken_for_a_fault_of_the_model(model, passes, monkeypatch):
    forward, calls = model.forward, []

    def full(*args, **kwargs):
        calls.append(args)
        if len(calls) > passes:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB.\nMore.")
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", full)
    with pytest.raises(UserError, match="a trial pass failed: OutOfMemoryError CUDA out of memory"):
        GenerationEngine(model, {3})
