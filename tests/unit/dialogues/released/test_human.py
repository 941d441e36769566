"""What the humans of the released protocol ask of their model, and what becomes of its reply."""

from __future__ import annotations

import asyncio
import logging

import openai
import pytest

from sweet_rl.dialogues.released.backend import ReleasedCodeHuman
from sweet_rl.models.base import Completion, ModelError
from sweet_rl.runs.records import Task

TASK = Task("a fee {w} of {0}", "def fee(w):\n    return {1: 2 * w}[1]", {"test1": "fee(1)"})
TEMPLATE = "{{kept}} {problem_description}|{hidden_information}|{dialogue_history}"
DIALOGUE = [
    {"role": "system", "content": "Ask."},
    {"role": "user", "content": "a fee {w} of {0}"},
    {"role": "assistant", "content": " {hidden_information}? ", "output": "thought OUTPUT: {hidden_information}? "},
]


class Model:
    """A model with one reply, or one error; it keeps the requests."""

    chat = None

    def __init__(self, reply: str | ModelError) -> None:
        self.reply, self.requests = reply, []

    async def complete(self, messages, sampling):
        self.requests.append((messages, sampling))
        if isinstance(self.reply, ModelError):
            raise self.reply
        return [Completion(self.reply, None, None, "stop", 7, 5)]


def refused(kind: str, status: int | None) -> ModelError:
    error = ModelError(kind, "no")
    if status is not None:
        error.__cause__ = openai.APIError("no", request=None, body=None)
        error.__cause__.status_code = status
    return error


def reply(model: Model, human: ReleasedCodeHuman | None = None):
    return asyncio.run((human or ReleasedCodeHuman(model, TEMPLATE)).reply(TASK, DIALOGUE, 3))


def test_braces_in_the_values_stay_and_what_the_agent_thought_is_not_shown():
    model = Model("It is.")
    reply(model)
    ((messages, sampling),) = model.requests
    assert messages == [
        {"role": "system", "content": "You are a helpful assistant."},
        {
            "role": "user",
            "content": "{kept} a fee {w} of {0}|def fee(w):\n    return {1: 2 * w}[1]|"
            "user:a fee {w} of {0}\n\n\n\nassistant: {hidden_information}? \n\n\n\nagent:",
        },
    ]
    assert (sampling.temperature, sampling.max_tokens, sampling.n) == (0.0, 4096, 1)


@pytest.mark.parametrize(("said", "leaks"), [("Two per kilo.", 0), (TASK.ground_truth, 1)])
def test_a_leak_is_counted_and_passes(said, leaks):
    found = reply(Model(said))
    assert (found.text, found.leaks, found.prompt_tokens, found.completion_tokens) == (said, leaks, 7, 5)


def test_a_thought_and_spaces_pass_as_they_stand_and_an_empty_reply_is_one():
    assert reply(Model(" <think>a</think> b ")).text == " <think>a</think> b "
    assert reply(Model("")).text == ""


@pytest.mark.parametrize(("kind", "status"), [("refused", 400), ("context", 400), ("filtered", 400), ("context", None)])
def test_a_bad_request_has_no_response_and_is_said_once(kind, status, caplog):
    human = ReleasedCodeHuman(Model(refused(kind, status)), TEMPLATE)
    with caplog.at_level(logging.WARNING):
        assert [reply(human.model, human).text for _ in range(2)] == ["No response."] * 2
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("kind", "status"), [("server", 500), ("filtered", None), ("refused", 422), ("auth", 401), ("auth", 400)]
)
def test_any_other_error_fails_the_dialogue(kind, status):
    with pytest.raises(ModelError):
        reply(Model(refused(kind, status)))
