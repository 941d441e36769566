"""Grades of pages whose pictures and vectors are made here."""

import io

import numpy as np
import pytest
from PIL import Image

from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader, cosine
from sweet_rl.rendering.renderer import Rendered
from sweet_rl.runs.records import Task

PAGE = "<html><body style='background:#204080'><h1 style='color:white'>Hello</h1></body></html>"
OTHER = "<html><body><p>Something else</p><div style='width:600px;height:400px;background:red'></div></body></html>"
VECTORS = {PAGE: [1.0, 0.0], OTHER: [0.6, 0.8], "<html>opposite</html>": [-1.0, 0.0], "<html>twin</html>": [0.6, 0.8]}
SAME_PICTURE = {"<html>twin</html>": OTHER}
FAILURES = {"<html>slow</html>": ("timeout", "it took too long"), "<html>busy</html>": ("machine", "no processor")}


class Browsers:
    """Draws a page as its own text, and counts."""

    browser, fingerprint = "chromium", "v1"

    def __init__(self):
        self.drawn, self.closed = [], False

    def render_all(self, pages):
        for page in pages:
            self.drawn.append(page)
            if page in FAILURES:
                yield Rendered(None, 0, 0, dict(zip(("kind", "message"), FAILURES[page], strict=True)))
            else:
                yield Rendered(SAME_PICTURE.get(page, page).encode(), 10, 10, None)

    def close(self):
        self.closed = True


class Encoder:
    describe = "image encoder: e"

    def __init__(self, name="e"):
        self.name, self.embedded = name, []

    def embed(self, pictures):
        self.embedded.append(pictures)
        return np.array([VECTORS[picture.decode()] for picture in pictures], np.float32)


def grader() -> PageGrader:
    return PageGrader(Browsers(), Encoder())


def task(page: str) -> Task:
    return Task("a page", page)


def test_the_reward_is_the_cosine_of_the_embeddings_and_a_negative_one_is_0():
    grades = list(grader().grade_many([(task(PAGE), page) for page in (PAGE, OTHER, "<html>opposite</html>")]))
    assert [grade.reward for grade in grades] == [1.0, 0.6, 0.0] and grader().grade(task(OTHER), PAGE).reward == 0.6
    assert [grade.evidence for grade in grades] == [{"similarity": s, "encoder": "e"} for s in (1.0, 0.6, -1.0)]
    assert [(grade.failure, grade.ungradable, grade.machine) for grade in grades] == [(None, None, None)] * 3
    assert cosine(np.array([1.0, 0.0]), np.array([2.0, 2.0])) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(None, "no answer"), ("  ", "no answer"), ("I give up.", "no page"), ("<html>slow</html>", "timeout")],
)
def test_an_answer_without_a_picture_earns_0_with_its_reason_and_has_no_similarity(answer, kind):
    grade = grader().grade(task(PAGE), answer)
    assert (grade.reward, grade.failure, grade.ungradable, grade.machine) == (0.0, kind, None, None)
    assert grade.evidence.pop("message") and grade.evidence == {"similarity": None, "encoder": "e", "side": "answer"}


class SeesBlack(Encoder):
    """An `Encoder` that also knows a picture of 224 x 224 black pixels."""

    def embed(self, pictures):
        if not pictures[0].startswith(b"\x89PNG"):
            return super().embed(pictures)
        image = Image.open(io.BytesIO(pictures[0]))
        assert image.size == (224, 224) and image.getextrema() == ((0, 0),) * 3
        return np.array([[0.8, 0.6]], np.float32)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(None, "no answer"), ("I give up.", "no page"), ("<html>slow</html>", "timeout")],
)
def test_by_the_released_rules_an_answer_without_a_picture_is_a_black_square(answer, kind):
    released = PageGrader(Browsers(), SeesBlack(), paper_grader=True)
    # black (0.8, 0.6): times (1, 0) is 0.8; times (0.6, 0.8) is 0.96; times (-1, 0) is -0.8, a reward of 0
    for page, similarity, reward in ((PAGE, 0.8, 0.8), (OTHER, 0.96, 0.96), ("<html>opposite</html>", -0.8, 0.0)):
        grade = released.grade(task(page), answer)
        assert (grade.reward, grade.failure, grade.ungradable, grade.machine) == (reward, kind, None, None)
        assert grade.evidence.pop("message") and grade.evidence.pop("side") == "answer"
        assert grade.evidence == {"similarity": similarity, "encoder": "e", "rules": "paper"}
    assert "black square" in released.describe()


def test_a_reference_without_a_picture_makes_every_answer_ungradable():
    grade, none = grader().grade_many([(task("<html>slow</html>"), PAGE), (task("<html>slow</html>"), None)])
    assert grade.evidence == none.evidence
    assert (grade.reward, grade.failure, grade.ungradable) == (None, None, "timeout")
    assert (grade.evidence["side"], grade.evidence["message"]) == ("reference", "it took too long")


@pytest.mark.parametrize(
    ("reference", "answer", "side"), [(PAGE, "<html>busy</html>", "answer"), ("<html>busy</html>", PAGE, "reference")]
)
def test_a_page_that_the_machine_failed_to_draw_is_not_judged(reference, answer, side):
    grade = grader().grade(task(reference), answer)
    assert (grade.reward, grade.failure, grade.ungradable, grade.machine) == (None, None, None, "no processor")
    assert grade.evidence["side"] == side


def test_many_grades_are_single_ones_in_order_and_each_page_and_picture_is_used_once():
    pages = [PAGE, OTHER, "<html>twin</html>", "no page", None]
    jobs = [(task(reference), answer) for reference in (PAGE, OTHER) for answer in pages] * 4
    many = grader()
    grades = list(many.grade_many(jobs))
    assert grades == [grader().grade(*job) for job in jobs]
    assert grades[6].reward == grades[7].reward == 1.0
    assert many.renderer.drawn[:3] == [PAGE, OTHER, "<html>twin</html>"]
