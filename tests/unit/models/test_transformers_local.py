"""The running batch, driven step by step, against one row at a time; what it keeps, and how it draws."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.transformers_local import GenerationEngine, PrefixCache, Request, sample_tokens
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import tiny_model

PROMPTS = [[5, 6, 7], [8] * 20, [9, 10], [11] * 7]
END = 2
LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.2]]))


@pytest.fixture(scope="module")
def model(tiny_agent):
    return AutoModelForCausalLM.from_pretrained(tiny_agent, dtype="float32").eval()


def generate(model, asked, eos_ids=(3,), **settings):
    """The results of (prompt, sampling) pairs that are submitted together, in order."""
    return together(GenerationEngine(model, set(eos_ids), **settings), asked)


def together(engine, asked):
    requests = [Request(ids, sampling) for ids, sampling in asked]
    for request in requests:
        engine.submit(request)
    while engine.busy:
        engine.step()
    return [request.future.result(timeout=0) for request in requests]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_whose_numbers_are_none_gives_no_reply(tiny_agent, temperature):
    broken = AutoModelForCausalLM.from_pretrained(tiny_agent, dtype="float32").eval()
    broken.get_parameter("model.norm.weight").data[0] = math.nan
    with pytest.raises(ValueError, match="not finite"):
        generate(broken, [(PROMPTS[0], Sampling(temperature, max_tokens=3))])


def asked():
    return [(PROMPTS[n % 4], Sampling(0.7 + 0.1 * n, max_tokens=4 + 3 * n, seed=n)) for n in range(8)]


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
            engine.check_prompt(ids)
        assert error.value.kind == "context" and not error.value.retryable
    ((made,),) = generate(model, [([5] * (engine.context - 2), Sampling(max_tokens=9))], eos_ids=())
    assert len(made.token_ids) == 2


def test_an_error_is_delivered_to_every_request_in_progress_or_waiting_and_a_cancelled_one_is_not_computed(model):
    engine = GenerationEngine(model, {3}, max_rows=2)
    requests = [Request(PROMPTS[0], Sampling(n=2, seed=seed, max_tokens=500)) for seed in range(4)]
    assert requests[3].future.cancel()
    for request in requests:
        engine.submit(request)
    assert requests[3] not in engine.waiting
    engine.step()
    error = ModelError("engine", "closed")
    engine.fail_all(error)
    assert [request.future.exception(timeout=0) for request in requests[1:3]] == [error, error]
    assert requests[0].future.done() and not engine.busy


def plain_logps(model, prompt, ids):
    """The log-prob of each sampled token after a forward pass over all that stands before it, by the model."""
    found = []
    for place, token in enumerate(ids):
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *ids[:place]]])).logits[0, -1]
        found.append(logits.float().log_softmax(-1)[token].item())
    return torch.tensor(found)


WINDOWS = {
    "mistral": {"sliding_window": 6},
    "phi3": {"sliding_window": 6},
    "qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    "gemma3_text": {"head_dim": 8, "sliding_window": 6},
}


@pytest.mark.parametrize("family", WINDOWS)
def test_a_window_is_no_end_of_the_context_and_is_kept(family):
    made = tiny_model(family, torch.float32, **WINDOWS[family])
    asked = [([5, 9, 11, 8] * n, Sampling(max_tokens=8, seed=n)) for n in (1, 4, 9)]
    for (ids, _), (own,) in zip(asked, generate(made, asked, eos_ids=()), strict=True):
        assert torch.allclose(torch.tensor(own.logprobs), plain_logps(made, ids, own.token_ids), atol=1e-4)


@pytest.mark.parametrize("family, changes", [
    ("bloom", {"n_head": 4, "attn_implementation": "eager"}),  # positions by a mask of two dimensions
    ("mamba", {"attn_implementation": "eager"}),
    ("llama4_text", {"head_dim": 8, "attention_chunk_size": 6, "num_local_experts": 2, "intermediate_size_mlp": 48}),
    ("qwen3_next", {"head_dim": 8, "num_experts": 2, "moe_intermediate_size": 16, "num_hidden_layers": 4,
                    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
                    "linear_value_head_dim": 8, "shared_expert_intermediate_size": 16}),
    ("minimax", {"head_dim": 8, "num_local_experts": 2, "layer_types": ["linear_attention", "full_attention"]}),
])  # fmt: skip
def test_a_model_whose_rows_cannot_share_a_batch_is_refused_with_the_way_out(family, changes):
    with pytest.raises(UserError, match="ForCausalLM .* Serve it instead .* --hostname"):
        GenerationEngine(tiny_model(family, torch.float32, **changes), {2})


def test_the_longest_text_that_a_prompt_continues_is_taken_once():
    kept = PrefixCache(100, {END})
    kept.keep([5, 6], ["short"])
    kept.keep([5, 6, END, 7], ["long"])
    prompt = [5, 6, END, 7, END, 8]
    assert kept.take(prompt) == (4, ["long"])
    assert kept.take(prompt) == (2, ["short"])
    assert kept.take(prompt) == (0, [])
    assert kept.tokens == 0
    kept.keep([5, 6], ["text"])
    assert kept.take([5, 6, 7]) == kept.take([5, 7, END]) == kept.take([5, 6]) == (0, [])


def test_the_oldest_texts_make_room_and_one_beyond_all_room_is_not_kept():
    kept = PrefixCache(4, {END})
    for first in (5, 6, 7):
        kept.keep([first, 9], [first])
    assert kept.tokens == 4
    assert kept.take([5, 9, END]) == (0, [])
    assert kept.take([7, 9, END]) == (2, [7])
    kept.keep([1] * 5, ["large"])
    assert kept.tokens == 0


FLAT = [math.sqrt(p) for p in (0.5, 0.3, 0.2)]


@pytest.mark.parametrize(("uniform", "temperature", "token", "probability"), [
    (0.0, 1.0, 0, 0.5), (0.49, 1.0, 0, 0.5), (0.51, 1.0, 1, 0.3), (0.81, 1.0, 2, 0.2),
    (1 - 2**-24, 1.0, 2, 0.2),
    (0.99, 0.0, 0, 0.5),  # the likeliest, with the model's own log-prob
    (0.0, 2.0, 0, FLAT[0] / sum(FLAT)),
])  # fmt: skip
def test_a_token_is_where_the_cumulative_distribution_passes_the_number(uniform, temperature, token, probability):
    tokens, logps = sample_tokens(LOGITS, torch.tensor([uniform]), torch.tensor([temperature]))
    assert tokens.tolist() == [token]
    assert math.exp(float(logps[0])) == pytest.approx(probability, abs=1e-5)


def test_a_token_of_no_probability_is_never_drawn():
    logits = torch.tensor([[-math.inf, 0.0, -math.inf]]).expand(3, 3)
    tokens, _ = sample_tokens(logits, torch.tensor([0.0, 0.5, 1 - 2**-24]), torch.ones(3))
    assert tokens.tolist() == [1, 1, 1]
