"""Pages in messages, and pages compared: with a real browser and the packaged encoder."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from sweet_rl.errors import UserError
from sweet_rl.rewards.embedding_cache import Embedding, EmbeddingCache
from sweet_rl.rewards.encoders import ImageEncoder, load_encoder
from sweet_rl.rewards.html import PageGrader, answered_page, cosine, extract_page, without_pages
from tests.support.browsers import renderer_or_skip

FRONTEND_DEV = Path(os.environ.get("SWEET_RL_COLBENCH", "")) / "frontend_dev.jsonl"
PAGE = "<html><body style='background:#204080'><h1 style='color:white'>Hello</h1></body></html>"
OTHER = "<html><body><p>Something else</p><div style='width:600px;height:400px;background:red'></div></body></html>"


@pytest.fixture(scope="module")
def renderer():
    with renderer_or_skip(workers=1) as renderer:
        yield renderer


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("efficientnet_lite_pytorch", reason="the offline encoder needs: pip install -e '.[frontend]'")
    return load_encoder("efficientnet-lite0")


@pytest.mark.parametrize(
    ("text", "page"),
    [
        (f"Here:\n```html\n{PAGE}\n```\nWhat do you think?", PAGE),
        (f"Old: {OTHER} New: {PAGE}", PAGE),
        (f"<!DOCTYPE html>\n{PAGE}", f"<!DOCTYPE html>\n{PAGE}"),
        (f"I close the `<html>` tag now.\n{PAGE}\nDone.", PAGE),
        (f"{PAGE} The <html> tag has a language now.", PAGE),
        (f"<html><body>cut off\n\nAgain:\n{PAGE}", PAGE),
        ('<HTML lang="en"><p>Upper</p></HTML >', '<HTML lang="en"><p>Upper</p></HTML >'),
        ('<html><iframe srcdoc="<html>in</html>"></iframe></html>',) * 2,
        ("```html\n<div>a fragment</div>\n```", "<div>a fragment</div>"),
        ("```python\nprint('<div>')\n```", None),
        ("<html><body>never closed", None),
        ("No page here, only a < b > c.", None),
        ("</html>", None),
        ("", None),
    ],
)
def test_the_last_complete_page_of_a_message_is_found(text, page):
    assert extract_page(text) == page


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        (f"```html\n{PAGE}\n```", PAGE),
        ("```html\n<html><body><p>cut he\n```\nSorry", "<html><body><p>cut he"),
        ("<html><body><p>cut he", "<html><body><p>cut he"),
        ("<div class='p-4'>bare</div>", "<div class='p-4'>bare</div>"),
        ("the page above", None),
        ("", None),
        (None, None),
    ],
)
def test_an_answer_is_what_a_browser_can_draw_of_it(answer, page):
    assert answered_page(answer) == page


def test_pages_can_be_left_out_of_a_text():
    text = f"First:\n```html\n{PAGE}\n```\nthen {OTHER} and\n<html><body>cut"
    assert without_pages(text, "(page)") == "First:\n(page)\nthen (page) and\n(page)"
    assert without_pages("no page", "(page)") == "no page"


@pytest.mark.slow
def test_the_same_page_is_worth_one_and_another_less(renderer, encoder):
    grader = PageGrader(renderer, encoder)
    same, other = grader.grade(PAGE, f"Here it is: ```html\n{PAGE}\n```"), grader.grade(PAGE, OTHER)
    assert (same.reward, same.similarity, same.failure, same.encoder) == (1.0, 1.0, None, "efficientnet-lite0")
    vectors = encoder.embed([renderer.render(page).png for page in (PAGE, OTHER)])
    assert other.similarity == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    assert 0 < other.reward < 0.95


@pytest.mark.slow
def test_what_gives_no_picture_is_a_failure_with_its_reason_and_never_a_similarity(renderer, encoder):
    grader = PageGrader(renderer, encoder)
    for answer, kind in ((None, "no answer"), ("  ", "no answer"), ("I give up.", "no page")):
        grade = grader.grade(PAGE, answer)
        assert (grade.reward, grade.similarity) == (0.0, None)
        assert (grade.failure["kind"], grade.failure["side"]) == (kind, "answer")
    huge = "<html><body>" + "x" * 4_000_001 + "</body></html>"
    assert grader.grade(PAGE, huge).failure["kind"] == "too_large"
    broken = grader.grade(huge, PAGE)
    assert (broken.reward, broken.similarity) == (None, None)
    assert (broken.failure["kind"], broken.failure["side"]) == ("too_large", "reference")


class Counting:
    """A renderer that counts what it is asked to draw."""

    def __init__(self, renderer):
        self.renderer, self.fingerprint, self.drawn = renderer, renderer.fingerprint, []

    def render_all(self, pages):
        self.drawn += pages
        return self.renderer.render_all(pages)


@pytest.mark.slow
def test_many_grades_equal_single_ones_and_references_are_kept_by_content_on_disk(renderer, encoder, tmp_path):
    rows = [(PAGE, OTHER), (OTHER, PAGE), (PAGE, PAGE), (PAGE, None)]
    jobs = [(number, *row) for number, row in enumerate(rows)]
    single = [(key, PageGrader(renderer, encoder).grade(*row)) for key, *row in jobs]
    first, second = Counting(renderer), Counting(renderer)
    assert list(PageGrader(first, encoder, EmbeddingCache(tmp_path)).grade_many(jobs)) == single
    assert sorted(first.drawn) == sorted([PAGE, OTHER])
    again = PageGrader(second, encoder, EmbeddingCache(tmp_path))
    assert [again.grade(PAGE, OTHER)] == [single[0][1]] and second.drawn == [OTHER]
    renamed = ImageEncoder("another", encoder._embed, 4, "")
    third = Counting(renderer)
    PageGrader(third, renamed, EmbeddingCache(tmp_path)).grade(PAGE, OTHER)
    assert sorted(third.drawn) == sorted([PAGE, OTHER])  # another encoder's embeddings are never taken
    for file in tmp_path.rglob("*.npz"):
        file.write_bytes(b"torn")
    fourth = Counting(renderer)
    assert PageGrader(fourth, encoder, EmbeddingCache(tmp_path)).grade(PAGE, OTHER) == single[0][1]


def test_a_cosine_is_computed_by_hand_and_a_negative_one_is_no_reward():
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(0.5**0.5)
    grade = PageGrader(None, ImageEncoder("e", None, 1, ""))._compared(
        Embedding(np.array([1.0, 0.0], np.float32), "a"), Embedding(np.array([-1.0, 0.0], np.float32), "b")
    )
    assert (grade.reward, grade.similarity) == (0.0, -1.0)


def test_a_cache_folder_that_cannot_be_made_is_one_message(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="embedding cache"):
        EmbeddingCache(tmp_path / "file")


@pytest.mark.slow
@pytest.mark.skipif(not FRONTEND_DEV.is_file(), reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder")
def test_every_page_of_colbench_is_like_itself_and_less_like_the_others(encoder):
    pages = [json.loads(line)["ground_truth"] for line in open(FRONTEND_DEV, encoding="utf-8")]
    with renderer_or_skip(workers=2) as renderer:
        grader = PageGrader(renderer, encoder)
        own = [grade for _, grade in grader.grade_many((None, page, page) for page in pages)]
        vectors = encoder.embed([rendered.png for rendered in renderer.render_all(pages)])
    assert [grade.similarity for grade in own] == [1.0] * len(pages)
    others = (vectors @ vectors.T)[~np.eye(len(pages), dtype=bool)]
    assert others.max() < 0.99
