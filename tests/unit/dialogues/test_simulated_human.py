"""The human of Backend Programming on a model whose replies are given."""

import asyncio
from dataclasses import dataclass, field

import pytest

from sweet_rl.dialogues import HumanSettings, LLMHuman
from sweet_rl.dialogues.backend.environment import CodeHuman
from sweet_rl.dialogues.simulated_human import PROMPT_VALUES, cut_at_sentence
from sweet_rl.models.base import Completion, ModelError
from sweet_rl.models.prompts import load_prompt
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import Task
from tests.support.chat_families import small_tokenizer

TASK = Task("Write a fee function: def fee(days)", "def fee(days):\n    return days * 3 + min(days, 10)\n")
DIALOGUE = [
    {"role": "user", "content": "the agent's own instructions"},
    {"role": "assistant", "content": "What does a {day} cost?"},
]
LEAK = "It is return days * 3 + min(days, 10)."


@dataclass
class Model:
    """Gives the replies in turn, the last one again and again."""

    replies: list[str]
    reason: str
    chat: ChatFormat | None = None
    calls: list = field(default_factory=list)

    async def complete(self, messages, sampling):
        self.calls.append((messages, sampling))
        text = self.replies[min(len(self.calls), len(self.replies)) - 1]
        return [Completion(text, None, None, self.reason, prompt_tokens=7, completion_tokens=5)]


def reply_of(*texts: str, reason: str = "stop", seed: int = 5, kind: type[LLMHuman] = CodeHuman, **settings):
    model = Model(list(texts), reason)
    human = kind(model, load_prompt("code_user.txt", PROMPT_VALUES), HumanSettings(**settings))
    return asyncio.run(human.reply(TASK, DIALOGUE, seed)), model.calls


def test_the_human_sees_reference_and_dialogue_but_not_the_agents_instructions():
    reply, ((messages, sampling),) = reply_of("Three a day.")
    assert (reply.text, reply.leaks, reply.prompt_tokens, reply.completion_tokens) == ("Three a day.", 0, 7, 5)
    (message,) = messages
    for shown in (TASK.problem_description, TASK.ground_truth, "Engineer: What does a {day} cost?"):
        assert shown in message["content"]
    assert "instructions" not in message["content"]
    assert (message["role"], sampling.temperature, sampling.seed, sampling.max_tokens) == ("user", 0, 5, 256)


def test_a_leak_is_asked_for_again_and_counted():
    reply, calls = reply_of(LEAK, LEAK, "Three a day, and one more for each of the first ten.")
    assert (reply.text, reply.leaks) == ("Three a day, and one more for each of the first ten.", 2)
    assert reply.completion_tokens == 15
    assert reply.prompt_tokens == 21
    assert [sampling.temperature for _, sampling in calls] == [0, 0.7, 0.7]
    assert [sampling.seed for _, sampling in calls] == [5, 6, 7]
    assert ["words only" in messages[0]["content"] for messages, _ in calls] == [False, True, True]


@pytest.mark.parametrize(("kind", "hidden"), [(CodeHuman, "code"), (LLMHuman, "solution")])
def test_a_human_who_only_leaks_ends_with_a_sentence_about_what_is_hidden(kind, hidden):
    reply, calls = reply_of(LEAK, kind=kind)
    assert (reply.text, reply.leaks, len(calls)) == (kind.fallback, 4, 4)
    assert hidden in reply.text and f"of the hidden {hidden}" in calls[1][0][0]["content"].rpartition("\n\n")[2]


def test_leaks_are_let_through_but_counted_if_told_so():
    reply, calls = reply_of(LEAK, retry_leaks=False)
    assert (reply.text, reply.leaks, len(calls)) == (LEAK, 1, 1)


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

    assert cut_at_sentence("Python 函数应该返回三。" * 3, 20) == "Python 函数应该返回三。"
    assert cut_at_sentence("Python 函数应该返回三加上五的和", 14) == "Python 函数应该返回三"


@pytest.mark.parametrize("reason", ["length", "stop"])
def test_reasoning_that_the_prompt_has_opened_is_not_the_humans_reply(reason):
    chat = ChatFormat(small_tokenizer("qwen3_thinking"))
    model = Model(["It adds three a day. </think>Three.", "The code adds three a day."], reason, chat)
    human = CodeHuman(model, load_prompt("code_user.txt", PROMPT_VALUES))
    assert asyncio.run(human.reply(TASK, DIALOGUE, 5)).text == "Three."
    model.calls, model.replies = [], model.replies[1:]
    if reason == "stop":  # it did not reason
        assert asyncio.run(human.reply(TASK, DIALOGUE, 5)).text == "The code adds three a day."
    else:
        with pytest.raises(ModelError, match="empty reply twice"):
            asyncio.run(human.reply(TASK, DIALOGUE, 5))
