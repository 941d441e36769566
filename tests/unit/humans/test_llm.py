"""The LLM-simulated human behind a real server."""

import asyncio

import pytest

from sweet_rl.humans.base import cut_at_sentence
from sweet_rl.humans.llm import PROMPT_VALUES, WITHOUT_CODE, LLMHuman
from sweet_rl.models.base import ModelError
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.prompts import load_prompt
from sweet_rl.records import Task
from tests.support.api_server import MODEL, ApiServer, chat_reply, in_turn

TASK = Task("Write a fee function: def fee(days)", "def fee(days):\n    return days * 3 + min(days, 10)\n")
DIALOGUE = [
    {"role": "user", "content": "the agent's own instructions"},
    {"role": "assistant", "content": "What does a {day} cost?"},
]
LEAK = "It is return days * 3 + min(days, 10)."


def reply_of(*texts: str, reason: str = "stop", **settings):
    async def work(url):
        model = OpenAIServer(MODEL, [url])
        human = LLMHuman(model, load_prompt("code_user.txt", PROMPT_VALUES), **settings)
        try:
            return await human.reply(TASK, DIALOGUE, seed=5)
        finally:
            await model.close()

    with ApiServer(in_turn(*(chat_reply(text, reason=reason) for text in texts))) as server:
        return asyncio.run(work(server.url)), [body for _, body in server.requests]


def test_the_human_sees_reference_and_dialogue_but_not_the_agents_instructions():
    reply, (body,) = reply_of("Three a day.")
    assert (reply.text, reply.leaks, reply.prompt_tokens, reply.completion_tokens) == ("Three a day.", 0, 7, 5)
    (message,) = body["messages"]
    for shown in (TASK.problem_description, TASK.ground_truth, "Engineer: What does a {day} cost?"):
        assert shown in message["content"]
    assert "instructions" not in message["content"]
    assert body["temperature"] == 0


def test_a_leak_is_asked_for_again_and_counted():
    reply, bodies = reply_of(LEAK, LEAK, "Three a day, and one more for each of the first ten.")
    assert (reply.text, reply.leaks) == ("Three a day, and one more for each of the first ten.", 2)
    assert reply.completion_tokens == 15
    assert bodies[1]["temperature"] > 0 and len({body["seed"] for body in bodies}) == 3
    assert "words only" in bodies[1]["messages"][0]["content"]


def test_a_human_who_only_leaks_ends_with_a_sentence_without_code():
    reply, bodies = reply_of(LEAK)
    assert (reply.text, reply.leaks, len(bodies)) == (WITHOUT_CODE, 4, 4)


def test_leaks_are_let_through_but_counted_if_told_so():
    reply, bodies = reply_of(LEAK, retry_leaks=False)
    assert (reply.text, reply.leaks, len(bodies)) == (LEAK, 1, 1)


def test_an_empty_reply_is_asked_for_once_more_and_then_an_error():
    assert reply_of("  ", "Three.")[0].text == "Three."
    with pytest.raises(ModelError) as error:
        reply_of("")
    assert error.value.kind == "malformed"


def test_long_replies_are_cut_at_a_sentences_end():
    sentence = "It costs three a day. "
    reply, _ = reply_of(sentence * 30)
    assert reply.text == (sentence * 18).strip() and len(reply.text) <= 400
    assert reply_of("It costs three. And the", reason="length")[0].text == "It costs three."


def test_cutting():
    assert cut_at_sentence(" short ", 400) == "short"
    assert cut_at_sentence("One 1.5 two. Three", 14) == "One 1.5 two."
    assert cut_at_sentence('He said "no." Then more words', 20) == 'He said "no."'
    assert cut_at_sentence("no end of a sentence here", 10) == "no end of"
    assert cut_at_sentence("x" * 50, 10) == "x" * 10
    assert cut_at_sentence("unfinished", 400, finished=False) == "unfinished"
