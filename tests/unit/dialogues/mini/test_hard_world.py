"""The hard world: rules in two parts, rules that only another answer mentions, messages of several sentences."""

import random

import pytest

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.mini.human import answer
from sweet_rl.dialogues.mini.oracle import normalised, topic_of, usefulness
from sweet_rl.dialogues.mini.tasks import family_of, make_tasks, rules_of, source
from sweet_rl.dialogues.mini.worlds import HARD, QUICK, TOPIC_BY_NAME
from sweet_rl.runs.records import Task

MINI = {
    "family": "hotel_bill",
    "rules": [["rate", 0, 4, 0], ["surcharge", 0, 30, 7], ["tax", 0, 20, 0], ["cap", 0, 55, 0]],
    "parts": {"surcharge": 2},
    "mentions": {"tax": "cap"},
}
SURCHARGE = "Is there a surcharge for large amounts?"


def said(*texts):
    return [{"role": "assistant", "content": text} for text in texts]


@pytest.fixture(scope="module")
def tasks():
    return make_tasks(24, seed=5, world=HARD)


def test_a_rule_with_two_numbers_is_told_one_number_at_a_time():
    first = {answer(MINI, SURCHARGE, random.Random(seed)) for seed in range(30)}
    earlier = ["What is the rate for each one?", SURCHARGE]
    second = {answer(MINI, SURCHARGE, random.Random(seed), earlier) for seed in range(30)}
    assert all("30" in text and "7" not in text for text in first) and len(first) == 3
    assert all("7" in text and "30" not in text for text in second) and len(second) == 3
    third = answer(MINI, SURCHARGE, random.Random(0), [SURCHARGE, SURCHARGE])
    assert third in second


def test_the_first_known_question_of_a_message_counts():
    for topic in HARD.topics:
        for question in topic.questions:
            for opening in ("", *HARD.openings):
                message = f"{opening} {question} Is it urgent?".strip()
                assert topic_of(message, HARD) == topic.name, message


@pytest.mark.parametrize("world", [QUICK, HARD], ids=["quick", "hard"])
def test_no_phrasing_belongs_to_two_topics(world):
    phrasings = [normalised(question) for topic in world.topics for question in topic.questions]
    assert len(phrasings) == len(set(phrasings))


def test_the_oracle_wants_both_parts():
    rate, tax, cap = "What is the rate for each one?", "Is there a tax on it?", "Is there a maximum?"
    assert usefulness(MINI, said(rate), SURCHARGE) == "useful"
    assert usefulness(MINI, said(rate, SURCHARGE), SURCHARGE) == "useful"
    assert usefulness(MINI, said(rate, SURCHARGE, SURCHARGE), SURCHARGE) == "repeated"
    assert usefulness(MINI, said(rate, SURCHARGE, tax, cap), "I WANT TO ANSWER:\n") == "early"
    assert usefulness(MINI, said(rate, SURCHARGE, tax, cap, SURCHARGE), "I WANT TO ANSWER:\n") == "complete"
    assert usefulness(MINI, [], "Is there a deadline for this work?") == "useless"
    assert usefulness({"family": "parking_fee", "rules": [["rate", 0, 4, 0]]}, said(rate), rate) == "repeated"


def test_who_asks_for_the_family_and_for_what_is_mentioned_knows_all_after_seven_questions(tasks):
    for task in tasks:
        mini, messages = task["mini"], []
        wanted = list(family_of(mini).topics)
        while wanted:
            topic = wanted.pop()
            question = TOPIC_BY_NAME[topic].questions[0]
            messages += said(question)
            reply = answer(mini, question, random.Random(0))
            known = {topic_of(text["content"], HARD) for text in messages}
            mentioned = [other for other in mini["mentions"].values() if TOPIC_BY_NAME[other].noun in reply]
            wanted += [other for other in mentioned if other not in {*known, *wanted}]
            if usefulness(mini, messages, question) == "useful":
                wanted.append(topic)
        assert usefulness(mini, messages, "I WANT TO ANSWER:\n") == "complete" and len(messages) <= 7


def test_the_reference_passes_its_tests_and_a_missing_rule_fails(tasks):
    with CodeGrader() as grader:
        for task in [*tasks[:4], *make_tasks(2, seed=5, world=QUICK)]:
            family, rules = family_of(task["mini"]), rules_of(task["mini"])
            assert grader.grade(Task.from_dict(task), task["ground_truth"]).reward == 1.0
            for left_out in range(len(rules)):
                code = source(family, rules[:left_out] + rules[left_out + 1 :])
                assert grader.grade(Task.from_dict(task), code).reward < 1.0
