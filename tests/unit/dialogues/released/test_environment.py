"""What the agent of the released protocol sees, and what becomes of its replies, written out by hand."""

from __future__ import annotations

import pytest

from sweet_rl.dialogues.released.environment import ReleasedEnvironment, shown_and_sampled
from sweet_rl.models.base import Completion
from sweet_rl.runs.records import Task

TASK = Task("a fee of a parcel", "def fee(w):\n    return 2 * w", {"test1": "fee(1)"})
PROMPT = "Work with the person. {dialogue_history}"


def said(text: str, ids: list[int] | None = None) -> Completion:
    return Completion(text, ids, None, "stop")


def played(*replies: str, max_turns: int = 10) -> ReleasedEnvironment:
    environment = ReleasedEnvironment(TASK, PROMPT, max_turns)
    for reply in replies:
        environment.step(said(reply))
        if not environment.over:
            environment.add_human_reply("two per kilo")
    return environment


def test_the_instructions_are_a_system_message_as_they_stand_and_the_description_is_alone():
    assert played().observe() == [
        {"role": "system", "content": "Work with the person. {dialogue_history}"},
        {"role": "user", "content": "a fee of a parcel"},
    ]


@pytest.mark.parametrize(
    ("text", "shown", "sampled"),
    [
        (" Which unit? ", " Which unit? ", " Which unit? "),
        ("I think.OUTPUT: Which unit?", " Which unit?", "I think.OUTPUT: Which unit?"),
        ("aOUTPUT:bOUTPUT:c", "b", "aOUTPUT:b"),
        ("OUTPUT:", "", "OUTPUT:"),
        ("aOUTPUT:bOUTPUT:cOUTPUT:d", "b", "aOUTPUT:b"),
    ],
)
def test_a_reply_is_shown_between_its_first_two_markers(text, shown, sampled):
    assert shown_and_sampled(text) == (shown, sampled)


def test_ids_that_are_not_those_of_the_kept_text_are_left_out():
    environment = ReleasedEnvironment(TASK, PROMPT)
    environment.step(said("OUTPUT:aOUTPUT:b", [1, 2, 3]))
    assert "token_ids" not in environment.dialogue[-1] and environment.dialogue[-1]["output"] == "OUTPUT:a"
    environment.add_human_reply("go on")
    environment.step(said("OUTPUT:a", [1, 2]))
    assert environment.dialogue[-1]["token_ids"] == [1, 2]


def test_the_agent_sees_of_its_earlier_replies_what_the_human_saw():
    environment = played("thought OUTPUT:Which unit?")
    assert environment.observe()[2:] == [
        {"role": "assistant", "content": "Which unit?", "templated": True},
        {"role": "user", "content": "two per kilo"},
    ]
    assert environment.dialogue[2]["output"] == "thought OUTPUT:Which unit?"


def test_the_answer_stands_between_the_first_two_markers_and_nothing_is_stripped():
    environment = played("Which unit?", "Here. I WANT TO ANSWER:\ndef fee(w): ...\n I WANT TO ANSWER: again")
    assert (environment.ending, environment.answer) == ("answered", "\ndef fee(w): ...\n ")


def test_a_marker_that_is_not_shown_ends_nothing():
    environment = played("I WANT TO ANSWER: x OUTPUT: Which unit?")
    assert not environment.over
    environment = played("OUTPUT:Which unit?OUTPUT:I WANT TO ANSWER: x")
    assert not environment.over


def test_the_tenth_reply_without_a_marker_is_graded_whole():
    environment = played(*["Which unit?"] * 9, "thought OUTPUT: def fee(w): ...")
    assert (environment.turns, environment.ending, environment.answer) == (10, "turn_limit", " def fee(w): ...")


def test_a_dialogue_of_ten_turns_is_seen_message_by_message():
    environment = played(*[f"question {n}" for n in range(9)])
    expected = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "a fee of a parcel"}]
    for number in range(9):
        expected += [
            {
                "role": "assistant",
                "content": f"question {number}",
                "output": f"question {number}",
                "finish_reason": "stop",
                "templated": True,
            },
            {"role": "user", "content": "two per kilo"},
        ]
    assert environment.observe() == expected


def test_an_ended_dialogue_takes_no_message():
    environment = played("I WANT TO ANSWER:x")
    with pytest.raises(ValueError, match="has ended"):
        environment.step(said("more"))
    with pytest.raises(ValueError, match="the human replies only"):
        environment.add_human_reply("yes")
