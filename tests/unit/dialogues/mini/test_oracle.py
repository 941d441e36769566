import pytest

from sweet_rl.dialogues.mini.oracle import label_turn, told_topics, topic_of, usefulness
from sweet_rl.dialogues.mini.worlds import QUICK
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
