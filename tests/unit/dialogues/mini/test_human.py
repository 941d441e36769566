import asyncio
import random

import pytest

from sweet_rl.dialogues.mini.human import UNKNOWN, MiniHuman, answer
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

PARKING = {"family": "parking_fee", "rules": [["allowance", 0, 2, 5], ["rate", 0, 4, 5], ["cap", 0, 30, 5]]}
RATE, CAP, CHILD = "What is the price of one unit?", "Is there a maximum?", "Who is going to use it?"


def asked(*questions):
    return [{"role": "assistant", "content": question} for question in questions]


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
