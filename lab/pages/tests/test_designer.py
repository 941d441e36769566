"""The scripted designer with a real browser; done word by word, what it says brings a page nearer to the reference."""

import asyncio
import random

import pytest

from lab.pages.boxes import boxes
from lab.pages.designer import NO_PAGE, NOT_SEEN, ScriptedDesigner, check_page_tasks
from lab.pages.domain import DOMAIN
from lab.pages.page_differences import SATISFIED, differences
from lab.pages.page_elements import look_at
from lab.pages.page_tasks import draw_page, make_page_tasks
from lab.pages.pages import HEIGHT, SITE_BY_NAME, SITES, WIDTH, layout, read_page
from lab.pages.tests.feedback import apply_feedback
from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader
from sweet_rl.dialogues.frontend.encoders import load_encoder
from sweet_rl.models.base import ModelError
from sweet_rl.rendering.renderer import Rendered
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from tests.support.browsers import renderer_or_skip


@pytest.fixture(scope="module")
def renderer():
    with renderer_or_skip(workers=1, width=WIDTH, height=HEIGHT) as one:
        yield one


def task(number, page):
    return Task(problem_description="A page.", ground_truth=page, test_cases={}, id=str(number))


def reply(designer, of, *messages, seed=0):
    dialogue = [{"role": "user", "content": "A page, please."}]
    dialogue += [{"role": "assistant", "content": message} for message in messages]
    return asyncio.run(designer.reply(of, dialogue, seed)).text


def test_it_reacts_to_the_newest_page_and_asks_for_one_where_there_is_none(renderer):
    designer = ScriptedDesigner(renderer)
    wanted = task(1, "<html><body style='background:navy'><h1>Hello</h1></body></html>")
    drawn = "<html><body style='background:white'><h1>Hello</h1></body></html>"
    assert reply(designer, wanted, "Which color do you like?") in NO_PAGE
    assert "background" in reply(designer, wanted, f"Here it is:\n```html\n{drawn}\n```")
    assert reply(designer, wanted, drawn, wanted.ground_truth) in SATISFIED
    assert reply(designer, wanted, wanted.ground_truth, "Do you like it?") in SATISFIED
    said = {reply(designer, wanted, drawn, seed=seed) for seed in range(8)}
    assert len(said) > 1 and reply(designer, wanted, drawn, seed=3) == reply(designer, wanted, drawn, seed=3)


def test_pages_that_cannot_be_drawn(renderer):
    class Broken:
        def render(self, html, layout):
            return renderer.render("" if "broken" in html else html, layout)

    designer = ScriptedDesigner(Broken())
    page = "<html><body>broken</body></html>"
    assert reply(designer, task(1, "<html><body>Hello</body></html>"), page) in NOT_SEEN
    with pytest.raises(ModelError, match="reference page"):
        reply(designer, task(2, page), "<html><body>Hello</body></html>")


def test_a_page_that_the_machine_did_not_draw_is_no_page_of_the_agent_s(renderer):
    class Tired:
        def render(self, html, layout):
            if "later" not in html:
                return renderer.render(html, layout)
            return Rendered(None, 0, 0, {"kind": "machine", "message": "no processor time"}, None)

    with pytest.raises(ModelError, match="processor") as failed:
        reply(ScriptedDesigner(Tired()), task(1, "<html><body>Hello</body></html>"), "<html><body>later</body></html>")
    assert failed.value.kind == "machine"


def test_code_tasks_are_refused_before_anything_is_drawn():
    with pytest.raises(UserError, match="tasks.jsonl, task 2 .*HTML"):
        check_page_tasks([task(1, "<html><body>Hello</body></html>"), task(2, "def f(): return 1")], "tasks.jsonl")
    assert DOMAIN.scripted_humans["designer"].check_tasks is check_page_tasks


def test_the_layout_without_a_browser_gives_the_same_feedback_as_a_browser_does(renderer):
    drawn = [draw_page(site, random.Random(number)) for site in SITES[:3] for number in range(6)]
    rendered = [renderer.render(page.html(), layout=True) for page in drawn]
    looks = [look_at(boxes(one.layout), one.width, one.height) for one in rendered]
    for page, look in zip(drawn, looks, strict=True):
        for other, other_look in zip(drawn, looks, strict=True):
            if page.site == other.site:
                found = [(round(d.weight, 3), d.sentences) for d in differences(look, other_look)]
                assert found == [(round(d.weight, 3), d.sentences) for d in differences(layout(page), layout(other))]


@pytest.mark.slow
def test_done_word_by_word_its_feedback_raises_the_similarity_turn_by_turn(renderer):
    pytest.importorskip("efficientnet_lite_pytorch", reason="pages need: pip install -e '.[frontend]'")
    designer, grader = ScriptedDesigner(renderer), PageGrader(renderer, load_encoder("efficientnet-lite0"))
    rng = random.Random(1)
    courses = []
    for number, row in enumerate(make_page_tasks(12, seed=4)):
        reference = task(number, row["ground_truth"])
        page = draw_page(SITE_BY_NAME[read_page(reference.ground_truth).site], rng)
        course = [grader.grade(reference, page.html()).evidence["similarity"]]
        while (words := reply(designer, reference, page.html(), seed=len(course))) not in SATISFIED:
            page = apply_feedback(page, words)
            course.append(grader.grade(reference, page.html()).evidence["similarity"])
        assert course[-1] == 1.0 and page.html() == reference.ground_truth
        courses.append(course)
    longest = max(map(len, courses))
    means = [sum(course[min(turn, len(course) - 1)] for course in courses) / 12 for turn in range(longest)]
    assert 4 <= longest <= 12
    assert all(after > before for before, after in zip(means, means[1:], strict=False)), means
