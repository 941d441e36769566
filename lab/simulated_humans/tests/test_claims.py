"""What a human's reply says about a mini task, read back into a rule."""

import random

import pytest

from lab.simulated_humans.claims import claimed_rule, claimed_solution
from sweet_rl.dialogues.mini.tasks import Rule, draw_rule
from sweet_rl.dialogues.mini.worlds import QUICK, TOPIC_BY_NAME
from sweet_rl.runs.records import Task

CODE = "def parking_fee(hours, resident):\n    total = hours\n    total = max(total - 2, 0)\n    total = total * {}\n"
CODE += "    total = min(total, 30)\n    return total"
MINI = {"family": "parking_fee", "rules": [["allowance", 0, 2, 5], ["rate", 0, 4, 5], ["cap", 0, 30, 5]]}
TASK = Task("Help", CODE.format(4), {}, "1", {"mini": MINI})


def test_every_sentence_and_every_line_of_code_of_a_rule_gives_the_same_code_again():
    for topic in QUICK.topics:
        for seed in range(20) if topic.forms else ():
            rule = draw_rule(topic.name, random.Random(seed))
            for said in (*rule.sentences("vip"), f"My code: {rule.line('vip')}"):
                assert claimed_rule(topic, said, "vip").line("vip") == rule.line("vip"), said


@pytest.mark.parametrize(
    "topic, reply, rule",
    [
        ("rate", "Well, the price is 7 euros.", Rule("rate", 0, 7, 7)),
        ("rate", "It takes two parameters, I think.", None),
        ("surcharge", "If it exceeds 20 then 5 more are due", Rule("surcharge", 0, 20, 5)),
        ("exception", "Then you subtract 6 euros", Rule("exception", 0, 6, 6)),
        ("exception", "Then you multiply all of that by 6", Rule("exception", 1, 6, 6)),
        ("exception", "Then 6 for us", None),
        ("rounding", "Always round up to tens, I mean 10", Rule("rounding", 1, 10, 10)),
        ("rate", "Between 5 and 7.", None),
        ("rate", "I don't know.", None),
        ("deadline", "On the 5th.", None),
    ],
)
def test_free_words_are_read_by_their_numbers_or_not_at_all(topic, reply, rule):
    assert claimed_rule(TOPIC_BY_NAME[topic], reply, "vip") == rule


def test_the_claim_stands_in_place_of_the_hidden_rule():
    asked = [{"role": "assistant", "content": "What is the price of one unit?"}]
    assert claimed_solution(TASK, asked, "The rate is 4 for each.") == CODE.format(4)
    assert claimed_solution(TASK, asked, "The rate is 9 for each.") == CODE.format(9)
    minimum = [{"role": "assistant", "content": "Is there a minimum?"}]
    assert "max(total, 12)" in claimed_solution(TASK, minimum, "The minimum is 12 here.")
    assert claimed_solution(TASK, asked, "I don't know.") is None
    assert claimed_solution(TASK, [{"role": "assistant", "content": "Bananas?"}], "The rate is 9.") is None
    assert claimed_solution(Task("Help", "def f(): pass"), asked, "The rate is 9 for each.") is None
