"""What can be seen in a reply without a model, and a judge's verdict."""

import asyncio

import pytest

from lab.simulated_humans.measure_humans import JUDGE_PROMPT
from lab.simulated_humans.replies import does_not_know, ends_help
from lab.simulated_humans.reply_judge import PROMPT_VALUES, contradicts
from sweet_rl.dialogues.mini.human import UNCLEAR, UNKNOWN
from sweet_rl.dialogues.mini.worlds import QUICK
from sweet_rl.models.base import Completion
from sweet_rl.models.prompts import load_prompt
from sweet_rl.runs.records import Task


@pytest.mark.parametrize(
    "reply", [*UNKNOWN, *UNCLEAR, "I do not know, you may choose.", "We’re not sure about that.", "I can't say."]
)
def test_helplessness_is_seen(reply):
    assert does_not_know(reply) and not ends_help(reply)


@pytest.mark.parametrize(
    "reply",
    ["That's all you need.", "You have everything now.", "There is nothing else to say.", "Please write the code.",
     "Just write it.", "No more questions, please.", "Stop asking!", "I have told you everything.", "Go ahead."],
)  # fmt: skip
def test_an_early_end_of_the_help_is_seen(reply):
    assert ends_help(reply) and not does_not_know(reply)


def test_answers_are_neither():
    said = [text.format(a=3, b=4, flag="vip") for t in QUICK.topics for _, answers in t.forms for text in answers]
    said += ["It writes the code into a file.", "You can know it from the second argument.", "All of them count."]
    said += ["Please go ahead and ask your question."]
    assert [text for text in said if does_not_know(text) or ends_help(text)] == []


@pytest.mark.parametrize(
    "verdict, wrong",
    [("It says 5, not 3.\nVerdict: wrong", True), ("Fine.\n**Verdict:** True", False), ("I cannot tell.", None),
     ("Verdict: wrong? No.\nVerdict: true", False)],
)  # fmt: skip
def test_the_judge_sees_reference_question_and_reply_and_its_last_verdict_counts(verdict, wrong):
    class Judge:
        chat = None

        async def complete(self, messages, sampling):
            (message,) = messages
            shown = ("<right_result>\nreturn 3", "<question>\nWhich number?", "<answer>\nFive.")
            assert all(text in message["content"] for text in shown) and sampling.temperature == 0
            return [Completion(verdict, None, None, "stop")]

    template = load_prompt(JUDGE_PROMPT, PROMPT_VALUES)
    judged = contradicts(Judge(), template, Task("t", "return 3"), "Which number?", "Five.")
    assert asyncio.run(judged) is wrong
