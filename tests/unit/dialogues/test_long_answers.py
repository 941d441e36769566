"""Answers and pages that are too long to be read."""

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader
from sweet_rl.dialogues.protocols import MAX_ANSWER_CHARS
from sweet_rl.rendering.tailwind import stylesheet, stylesheet_for
from sweet_rl.runs.records import Task
from tests.support.grading import grade
from tests.unit.dialogues.frontend.test_cosine_similarity import PAGE, Browsers, Encoder


def test_an_answer_of_more_than_a_million_characters_fails_unread():
    code = "def f(x):\n    return x\n"
    with CodeGrader(timeout=0.5, workers=1) as grader:
        padded = code + "#" * (MAX_ANSWER_CHARS - len(code))
        assert grade(grader, code, padded, {"t": "f(1)"}).reward == 1.0
        graded = grade(grader, code, padded + "#", {"t": "f(1)"})
    assert (graded.reward, graded.failure) == (0.0, "too long")
    (page,) = PageGrader(Browsers(), Encoder()).grade_many([(Task("a", PAGE), PAGE + " " * MAX_ANSWER_CHARS)])
    assert (page.reward, page.failure) == (0.0, "too long")


def test_a_page_with_an_endless_character_reference_gets_the_whole_stylesheet():
    assert stylesheet_for("<p class='&#" + "1" * 5000 + ";'>") == stylesheet()
