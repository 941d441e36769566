"""The rules of Backend Programming."""

import pytest

from sweet_rl.environments import AnswerEnvironment
from sweet_rl.models.base import Completion
from sweet_rl.prompts import load_prompt
from sweet_rl.records import Task

TASK = Task("Sum a list {max_turns}: def f(x)", "def f(x): return sum(x)")


def begin(max_turns: int = 3) -> AnswerEnvironment:
    return AnswerEnvironment(TASK, load_prompt("code_agent.txt", ["problem_description"]), max_turns)


def say(text: str, reason: str = "stop") -> Completion:
    return Completion(text, [1, 2], None, reason)


def test_the_first_message_holds_the_task_word_for_word_and_the_number_of_turns():
    (opening,) = begin(7).observe()
    assert opening["role"] == "user"
    assert TASK.problem_description in opening["content"] and "at most 7 messages" in opening["content"]
    assert TASK.ground_truth not in opening["content"]


def test_the_answer_is_all_that_follows_the_marker():
    game = begin()
    code = "```python\ndef f(x):\n    print('OUTPUT: 3')\n    return 'OUTPUT:'\n```"
    game.step(say(f"Here it is.\nI WANT TO ANSWER:\n{code}\n"), "the prompt")
    assert (game.over, game.ending, game.answer) == (True, "answered", code)
    assert game.dialogue[-1] == {
        "role": "assistant", "content": f"Here it is.\nI WANT TO ANSWER:\n{code}\n", "input": "the prompt",
        "output": f"Here it is.\nI WANT TO ANSWER:\n{code}\n", "token_ids": [1, 2], "finish_reason": "stop",
    }  # fmt: skip


def test_the_turn_limit_ends_without_an_answer():
    game = begin(max_turns=2)
    game.step(say("Which numbers?"))
    assert not game.over
    game.hear("All.")
    game.step(say("def f(x): return sum(x)"))
    assert (game.ending, game.answer, game.turns) == ("turn_limit", None, 2)


def test_an_answer_in_the_last_turn_counts():
    game = begin(max_turns=1)
    game.step(say("I WANT TO ANSWER: def f(x): return 1"))
    assert (game.ending, game.answer) == ("answered", "def f(x): return 1")


def test_a_cut_message_is_told_from_a_finished_one():
    game = begin()
    game.step(say("Whic", reason="length"))
    assert game.dialogue[-1]["finish_reason"] == "length"


def test_nobody_speaks_out_of_turn():
    game = begin()
    with pytest.raises(ValueError):
        game.hear("hello")
    game.step(say("I WANT TO ANSWER: x"))
    with pytest.raises(ValueError):
        game.step(say("more"))
    with pytest.raises(ValueError):
        game.hear("hello")
