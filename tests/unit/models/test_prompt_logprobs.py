"""Which answers of a server hold the log-probs of a text."""

import asyncio

import numpy as np
import pytest

from sweet_rl.models.base import ModelError
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.prompt_logprobs import PromptLogprobs
from sweet_rl.runs.errors import UserError
from tests.support.api_server import ApiServer, Reply

TEXT = EncodedText.build([5, 6, 7, 6], [False, False, True, True], "text")


def answer(*values) -> dict:
    """A response whose place n has the log-prob values[n] of the token there, beside that of the likeliest one."""
    places = [value if value is None else {"9": {"logprob": -0.1}, str(token): {"logprob": value}}
              for token, value in zip(TEXT.ids, values, strict=True)]  # fmt: skip
    return {"choices": [{"text": "x", "prompt_logprobs": places}]}


def scored(found: dict) -> np.ndarray:
    """The log-probs of TEXT by a server that answers `found`."""

    async def work(url: str) -> list[np.ndarray]:
        scorer = PromptLogprobs("served-model", url)
        try:
            return await scorer.score([TEXT, TEXT])
        finally:
            await scorer.close()

    with ApiServer(lambda _: Reply(found)) as server:
        first, second = asyncio.run(work(server.url))
        assert len(server.requests) == 1  # equal texts once
    np.testing.assert_array_equal(first, second)
    return first


def test_the_log_probs_are_those_of_the_trained_tokens_and_others_are_not_looked_at():
    np.testing.assert_array_equal(scored(answer(None, float("nan"), -0.5, 0)), np.float32([-0.5, 0]))


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -9999.0, "-1", None, 3.5])
def test_a_log_prob_that_is_none_is_an_error_of_its_text(value):
    with pytest.raises(ModelError, match="token 3 has") as error:
        scored(answer(None, -1.0, -0.5, value))
    assert error.value.kind == "logprobs" and error.value.fatal is None
    assert "--logprobs-mode" in str(error.value)


@pytest.mark.parametrize("found, error", [
    ({}, UserError), ({"choices": [{"text": "x"}]}, UserError),
    ({"choices": [{"prompt_logprobs": [None]}]}, ModelError),
])  # fmt: skip
def test_an_answer_without_one_for_each_token_fails_and_a_server_that_gives_none_ends_the_run(found, error):
    with pytest.raises(error, match="prompt_logprobs"):
        scored(found)


def test_the_log_prob_of_another_token_is_not_taken():
    found = answer(None, -1.0, -0.5, -0.5)
    found["choices"][0]["prompt_logprobs"][3] = {"7": {"logprob": -0.5}}
    with pytest.raises(ModelError, match="token 3 has None"):
        scored(found)
