"""Perfect dialogues: no question needs the solution, and the answer is right."""

import random

import pytest

from lab.ceiling.perfect import PERFECT, is_perfect, lessons_on, perfect_dialogues
from lab.mini_agents.imitation import imitation_dialogue
from sweet_rl.dialogues.mini.tasks import Rule, describe
from sweet_rl.dialogues.mini.worlds import FAMILY_BY_NAME, HARD

FAMILY = FAMILY_BY_NAME["ski_pass"]  # rate, volume (told in two parts), minimum
RULES = [Rule("rate", 0, 3, 2), Rule("volume", 0, 20, 5), Rule("minimum", 0, 12, 2), Rule("doubling", 0, 30, 2)]
TASK = describe(FAMILY, RULES, random.Random(0), HARD)
QUESTION = {
    "rate": "What is the rate for each one?",
    "volume": "Is there a volume reduction?",
    "minimum": "Is there a minimum?",
    "doubling": "Does anything count double?",
}


def dialogue(asked, answer=f"I WANT TO ANSWER:\n{TASK['ground_truth']}"):
    return [{"role": "assistant", "content": text} for text in [*(QUESTION[topic] for topic in asked), answer]]


(MENTIONING,) = TASK["mini"]["mentions"]
OTHERS = [topic for topic in ("rate", "volume", "minimum") if topic != MENTIONING]


def test_a_topic_is_known_once_a_reply_has_mentioned_it():
    assert is_perfect(TASK, dialogue([*OTHERS, MENTIONING, "doubling"]))
    assert not is_perfect(TASK, dialogue([*OTHERS, "doubling", MENTIONING]))


def test_a_wrong_answer_is_not_perfect():
    assert not is_perfect(TASK, dialogue([MENTIONING, "doubling", *OTHERS], "I WANT TO ANSWER:\nreturn 0"))


def test_dialogues_have_other_solutions_than_those_left_out_and_ask_nothing_in_vain():
    some = perfect_dialogues(40, 0)
    answers = {messages[-1]["content"] for _, messages in some}
    assert len(answers) == 40
    left_out = {answer.split("\n", 1)[1] for answer in answers}
    others = perfect_dialogues(40, 0, left_out)
    assert not answers & {messages[-1]["content"] for _, messages in others}
    for hint, messages in some:
        assert hint == "" and not any("know" in row["content"] for row in messages if row["role"] == "user")


def test_an_epoch_has_each_dialogue_once_and_held_out_ones_are_others():
    stream = lessons_on(30, ()).stream
    first, again, held_out = stream(5), stream(5), stream(-2)
    epoch = [str(next(first)) for _ in range(30)]
    assert len(set(epoch)) == 30 and epoch == [str(next(again)) for _ in range(30)]
    assert sorted(epoch) == sorted(str(next(first)) for _ in range(30))
    assert not set(epoch) & {str(next(held_out)) for _ in range(300)}


@pytest.mark.parametrize("seed", range(3))
def test_an_agent_that_guesses_unmentioned_topics_is_refused(seed):
    rng = random.Random(seed)
    kept = [is_perfect(TASK, imitation_dialogue(TASK, False, rng, PERFECT)) for _ in range(50)]
    assert any(kept) and not all(kept)
