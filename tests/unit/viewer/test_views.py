"""What the template gets of each kind of record."""

from dataclasses import replace

import pytest

from sweet_rl.method.ranking import ranked
from sweet_rl.method.turn_pairs import turn_pairs
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_path
from sweet_rl.runs.records import PreferencePair, TurnCandidates
from sweet_rl.viewer.views import TITLE, candidates_view, dialogue_view, pair_view, set_levels, title_of
from tests.support.dialogues import graded

TEXTS = ["When do you need it?", "Is there a maximum?", "Is there a basic charge for everybody?", "Why?"]
SCORES = [0.1, 0.5, -0.2, 0.3, -0.4]


def candidates(turn: int = 0) -> TurnCandidates:
    """Ranked candidates of a turn of the first dialogue, the last of which is what the agent said."""
    trajectory, chat = graded()[0], ChatFormat.from_pretrained(model_path("mini"))
    prompt, said = chat.prompt(trajectory.dialogue_history[: 1 + 2 * turn]), trajectory.dialogue_history[1 + 2 * turn]
    texts = [*TEXTS, said["content"]]
    record = TurnCandidates(prompt, texts[-1], texts, task=trajectory.task, turn=turn, id=f"{trajectory.id}-{turn}")
    return ranked(record, SCORES, chat.eos_text)


def test_candidates_come_best_first_in_their_halves():
    views = candidates_view(candidates())
    assert [view["credit"]["value"] for view in views] == sorted(SCORES, reverse=True)
    assert [view["half"] for view in views] == ["upper", "upper", "", "lower", "lower"]
    assert [view["taken"] for view in views] == [False] * 4 + [True]


def test_a_turn_has_the_credit_of_its_record_and_the_word_of_its_oracle():
    trajectory = graded()[0]
    credit = [number / 8 for number in range(trajectory.turns)]
    turns = [m for m in dialogue_view(replace(trajectory, turn_credit=credit))["messages"] if m["role"] == "assistant"]
    assert [turn["credit"]["value"] for turn in turns] == credit
    assert [turn["oracle"] for turn in turns] == [
        m["oracle"] for m in trajectory.dialogue_history if m["role"] == "assistant"
    ]


def test_the_credit_of_a_token_is_its_log_ratio():
    row = {"turn": 0, "advantage": 0.25, "tokens": ["a", "b"], "critic": [-1.0, -2.0], "reference": [-1.5, -2.0]}
    (turn, *_) = [m for m in dialogue_view(graded()[0], [row])["messages"] if m["role"] == "assistant"]
    assert turn["credit"]["tokens"] == [{"text": "a", "value": 0.5}, {"text": "b", "value": 0.0}]


def test_levels_follow_sign_and_size():
    credits = [{"value": value} for value in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    set_levels(credits)
    assert [credit["level"] for credit in credits] == [-4, -3, 0, 3, 4]  # square roots
    zero = [{"value": 0.0}]
    set_levels(zero)
    assert zero[0]["level"] == 0


def test_the_tests_of_an_answer_say_what_was_expected():
    wrong = next(t for t in graded() if t.is_graded and t.reward != 1 and t.answer)
    tests = dialogue_view(wrong)["tests"]
    assert [test["call"] for test in tests] == list(wrong.task.test_cases.values())
    assert {test["passed"] for test in tests} <= {True, False}
    assert all("expected" in test["text"] for test in tests if test["passed"] is False)


@pytest.mark.parametrize("released", [False, True])
def test_a_pair_has_what_both_share_once_and_what_is_trained_apart(released):
    record = candidates()
    (pair,) = turn_pairs(record, 1, seed=1)
    if released:
        chosen, rejected = ("".join(part["text"] for part in text) for text in (pair.chosen, pair.rejected))
        pair = PreferencePair(f"{chosen}\nmore", f"{rejected}\nmore")
    view = pair_view(pair)
    for side, text in (("chosen", pair.chosen), ("rejected", pair.rejected)):
        whole = text if isinstance(text, str) else "".join(part["text"] for part in text)
        assert "".join(part["text"] for part in view["parts"] + view[side]) == whole
    assert view["chosen"] != view["rejected"] and view["parts"][0]["text"]
    if not released:
        assert [part["train"] for part in view["chosen"]] == [True]


def test_a_title_is_the_first_line_and_is_cut_between_two_words():
    assert title_of("\n\n I need a price.\ndef price(days)") == "I need a price."
    long = title_of("word (with, a bracket) " * 20)
    assert long.endswith(" word…") and len(long) <= TITLE and title_of("") == ""
