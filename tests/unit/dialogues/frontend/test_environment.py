"""The domain Frontend Design."""

import pytest

from sweet_rl.dialogues.frontend.environment import DOMAIN, FrontendEnvironment
from sweet_rl.dialogues.frontend.vision_human import newest_draft
from sweet_rl.models.base import Completion
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

PAGE, OTHER = "<html><body>one</body></html>", "<html><body>two</body></html>"
TASK = Task("A page for a bakery.", PAGE)


def begin(max_turns: int = 3) -> FrontendEnvironment:
    return DOMAIN.begin(DOMAIN.agent_template(), max_turns)(TASK)


def say(text: str) -> Completion:
    return Completion(text, [1, 2], None, "stop")


def test_the_first_message_tells_the_task_and_the_number_of_messages_but_not_the_page():
    (opening,) = begin(7).observe()
    assert TASK.problem_description in opening["content"] and "at most 7 messages" in opening["content"]
    assert "one" not in opening["content"].split("How to work")[0] or PAGE not in opening["content"]


def test_the_answer_is_the_page_after_the_marker_and_nothing_else():
    game = begin()
    game.step(say(f"As before {OTHER}\nI WANT TO ANSWER:\n```html\n{PAGE}\n```\nI hope you like it."))
    assert (game.ending, game.answer) == ("answered", PAGE)
    assert game.dialogue[-1]["content"].startswith("As before")


def test_an_answer_that_was_cut_is_kept_as_far_as_it_goes_and_words_are_kept_where_there_is_no_page():
    game = begin()
    game.step(say("I WANT TO ANSWER:\n<html><body><p>cut"))
    assert (game.ending, game.answer) == ("answered", "<html><body><p>cut")
    game = begin()
    game.step(say("I WANT TO ANSWER: the page above"))
    assert (game.ending, game.answer) == ("answered", "the page above")


def test_a_draft_is_no_answer_even_in_the_last_message():
    game = begin(max_turns=2)
    game.step(say(PAGE))
    assert not game.over and newest_draft(game.dialogue) == PAGE
    game.add_human_reply("Larger.")
    game.step(say(OTHER))
    assert (game.ending, game.answer) == ("turn_limit", None)


def test_tasks_with_tests_are_refused_if_all_have_them():
    DOMAIN.check([TASK, Task("a", "b", {"t": "f()"})], "x.jsonl")
    with pytest.raises(UserError, match="x.jsonl: its tasks have test_cases"):
        DOMAIN.check([Task("a", "b", {"t": "f()"})], "x.jsonl")
