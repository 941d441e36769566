"""The quick world: what its human tells, and what its oracle thinks of a turn."""

import asyncio
import random

import pytest

from sweet_rl.dialogues.mini.human import UNKNOWN, MiniHuman, answer
from sweet_rl.dialogues.mini.oracle import label_turn, told_topics, topic_of, usefulness
from sweet_rl.dialogues.mini.worlds import QUICK
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

PARKING = {"family": "parking_fee", "rules": [["allowance", 0, 2, 5], ["rate", 0, 4, 5], ["cap", 0, 30, 5]]}
RATE, CAP, CHILD = "What is the price of one unit?", "Is there a maximum?", "Who is going to use it?"


def asked(*questions):
    return [{"role": "assistant", "content": question} for question in questions]


def test_every_phrasing_is_understood():
    for topic in QUICK.topics:
        for question in topic.questions:
            assert topic_of(question) == topic.name
            assert topic_of(question.upper()) == topic.name


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("Could you tell me the upper ceiling, please?", "cap"),
        ("Should I round the number at the end?", "rounding"),
        ("Do we split the bill?", "sharing"),
        ("Bananas?", None),
    ],
)
def test_free_questions_go_to_the_topic_of_their_keywords(question, topic):
    assert topic_of(question) == topic


def test_the_oracle_knows_what_a_turn_is_worth():
    assert usefulness(PARKING, [], RATE) == "useful"
    assert usefulness(PARKING, asked(RATE), "What do we multiply it by?") == "repeated"
    assert usefulness(PARKING, asked(RATE), CHILD) == "useless"
    assert usefulness(PARKING, asked(RATE), "I WANT TO ANSWER:\ndef f(): ...") == "early"
    everything = asked(RATE, CAP, "Is there a free allowance at the start?")
    assert told_topics(PARKING, everything) == {"rate", "cap", "allowance"}
    assert usefulness(PARKING, everything, "I WANT TO ANSWER:\ndef f(): ...") == "complete"


def test_a_turn_is_labelled_if_its_task_is_a_mini_task():
    task = Task("Help", "def parking_fee(hours, resident): ...", {}, "1", {"mini": PARKING})
    before = [{"role": "user", "content": "Help"}, *asked(RATE), {"role": "user", "content": CAP}]
    assert [label_turn(task, before, text) for text in (CAP, RATE, CHILD)] == ["useful", "repeated", "useless"]
    assert label_turn(task, before, "Hm. " * 1000 + "I WANT TO ANSWER:\ndef f(): ...") == "early"
    for mini in (None, 3, {}):
        assert label_turn(Task("Help", "g", {}, "1", {"mini": mini}), before, CAP) is None
    assert label_turn(Task("Help", "g", {}, "1"), before, CAP) is None


def test_the_human_tells_the_number_when_asked_and_does_not_know_the_rest():
    replies = {answer(PARKING, RATE, random.Random(seed)) for seed in range(50)}
    assert len(replies) == 3 and all("4" in reply for reply in replies)
    assert {answer(PARKING, CHILD, random.Random(seed)) for seed in range(50)} == set(UNKNOWN)
    assert "don't know" in answer(PARKING, "Bananas?", random.Random(0))


def test_the_human_is_deterministic_by_seed_and_refuses_other_tasks():
    task = Task("Help", "def parking_fee(hours, resident): ...", {}, "1", {"mini": PARKING})
    human = MiniHuman()
    replies = [asyncio.run(human.reply(task, asked(RATE), 7)).text for _ in range(2)]
    assert replies[0] == replies[1]
    with pytest.raises(UserError, match="mini"):
        asyncio.run(human.reply(Task("Help", "def f(): ...", {}, "1", {}), asked(RATE), 7))
