"""A server samples from the policy: nothing of generation_config.json, and log-probs are those of the draws."""

import asyncio
import math
import random

import pytest

from sweet_rl.models.base import Sampling
from sweet_rl.models.hostnames import HOSTED
from sweet_rl.models.openai_server import OpenAIServer, sampled_otherwise
from sweet_rl.models.request_body import PLAIN_SAMPLING, RequestBody
from sweet_rl.runs.errors import UserError
from tests.support.api_server import MODEL, ApiServer, Reply, refusal

FLAT = [1 / (rank + 3) for rank in range(150)]
PEAKED = [1e6, *FLAT]


def draws(weights, how, seed=0):
    """128 draws from `how` of the weights with the log-probs of the weights."""
    draw, kept = random.Random(seed), how(weights)
    chosen = draw.choices(range(len(kept)), kept, k=128)
    return [(token, math.log(weights[token] / sum(weights))) for token in chosen]


OTHERWISE = {
    "top_k 1": lambda w: w[:1],
    "top_k 20": lambda w: w[:20],
    "temperature 2, of a peaked one": lambda w: [p**0.5 for p in w],
}


@pytest.mark.parametrize("weights", [FLAT, PEAKED, [1.0], [0.5, 0.5]], ids=["flat", "peaked", "one", "two"])
def test_honest_draws_are_believed(weights):
    assert not any(sampled_otherwise(draws(weights, lambda w: w, seed)) for seed in range(300))


@pytest.mark.parametrize("name", OTHERWISE)
def test_draws_from_another_distribution_are_not(name):
    weights = [30.0, *FLAT] if "peaked" in name else FLAT
    assert all(sampled_otherwise(draws(weights, OTHERWISE[name], seed)) for seed in range(10))


def served(tiny_chat, how):
    """A server whose model gives its byte tokens the probabilities FLAT and samples from `how` of them."""

    def answer(body):
        assert body["prompt"] == tiny_chat.encode([{"text": "The", "train": False}])[0] and body["max_tokens"] == 1
        found = draws(FLAT, how, body["seed"])[: body["n"]]
        choices = [
            {"index": place, "text": "x", "token_ids": [token], "logprobs": {"token_logprobs": [logprob]},
             "finish_reason": "length"}
            for place, (token, logprob) in enumerate(found)
        ]  # fmt: skip
        return Reply({"choices": choices, "usage": {}})

    return answer


def check(answer, chat):
    async def work(url):
        model = OpenAIServer(MODEL, [url], pause=0.01, chat=chat)
        try:
            await model.check()
        finally:
            await model.close()

    with ApiServer(answer) as server:
        asyncio.run(work(server.url))


def test_a_run_does_not_start_if_the_log_probs_are_not_those_of_the_draws(tiny_chat):
    check(served(tiny_chat, lambda w: w), tiny_chat)
    check(lambda body: refusal(400, "no"), tiny_chat)  # shows in the calls of the run
    with pytest.raises(UserError, match="generation_config"):
        check(served(tiny_chat, OTHERWISE["top_k 20"]), tiny_chat)


def test_the_hosted_api_is_not_sent_what_it_does_not_know_and_a_setting_of_the_user_wins():
    def sent(request=None, hosted=False):
        bodies = RequestBody("m", request, hosted)
        body = bodies.build({}, Sampling(), None, bodies.form)
        return {name: body[name] for name in PLAIN_SAMPLING if name in body}

    assert sent() == PLAIN_SAMPLING and sent(hosted=True) == {}
    assert sent({"top_k": 5, "min_p": None}) == {"top_k": 5, "repetition_penalty": 1.0}
    model = OpenAIServer("m", [], "key")
    assert [server.url for server in model.servers.all] == [HOSTED] and "top_k" in model._body._unknown
    asyncio.run(model.close())
