"""Mini pages: written, read back, laid out without a browser as with one, and revised as the designer asks."""

import random
from dataclasses import replace

import pytest

from lab.pages.color_names import color_name
from lab.pages.page_differences import SATISFIED, differences, feedback
from lab.pages.page_tasks import PART_WORDS, draw_page, make_page_tasks
from lab.pages.pages import BOXES, COLORS, PALE, PARTS, SITES, STRONG, Page, layout, read_page
from lab.pages.tests.feedback import apply_feedback

PAGE = Page("Sunny Bakery", "white", "navy", "left", "We open at six", "green", 3, "gold", "none")


def pages(count, seed=0):
    rng = random.Random(seed)
    return [draw_page(rng.choice(SITES), rng) for _ in range(count)]


def test_a_page_is_read_back_as_it_was_written():
    for page in pages(200):
        assert read_page(page.html()) == page


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<html></html>",
        PAGE.html()[:-1],
        PAGE.html().replace("Cakes", "Pies"),
        PAGE.html().replace("gold", "plum", 1),
    ],
    ids=["empty", "another page", "cut", "other boxes", "boxes of two colors"],
)
def test_other_html_is_no_mini_page(html):
    assert read_page(html) is None


@pytest.mark.parametrize("family", [STRONG, PALE, BOXES])
def test_colors_of_a_part_go_by_different_names(family):
    assert len({color_name((*COLORS[color], 1.0)) for color in family}) == len(family)


def test_every_single_difference_is_told_and_its_sentence_repairs_it():
    rng = random.Random(1)
    for page in pages(40):
        for part in PARTS:
            other = replace(page, **{part: getattr(draw_page(_site(page), rng), part)}).settled()
            found = differences(layout(page), layout(other))
            assert bool(found) == (page != other)
            if found:
                for sentence in found[0].sentences:
                    assert apply_feedback(other, sentence) == page, sentence


def test_doing_what_the_designer_says_ends_at_the_reference_page():
    rng = random.Random(2)
    for reference in pages(100):
        page, turns = draw_page(_site(reference), rng), 0
        while (words := feedback(layout(reference), layout(page), rng)) not in SATISFIED:
            revised = apply_feedback(page, words)
            assert revised != page, words
            page, turns = revised, turns + 1
        assert page == reference and turns <= 2 * len(PARTS)


def test_what_is_not_understood_changes_nothing():
    assert apply_feedback(PAGE, "Hm, I do not know. The weather is nice!") == PAGE
    assert apply_feedback(PAGE, SATISFIED[0]) == PAGE


def test_tasks_have_pages_of_their_own_and_mention_only_what_is_there():
    tasks = make_page_tasks(120, seed=3)
    assert tasks == make_page_tasks(120, seed=3)
    assert len({task["ground_truth"] for task in tasks}) == 120
    again = make_page_tasks(120, seed=3, exclude={task["ground_truth"] for task in tasks})
    assert not {task["ground_truth"] for task in tasks} & {task["ground_truth"] for task in again}
    mentioned = 0
    for task in tasks:
        page = read_page(task["ground_truth"])
        assert page.site in task["problem_description"]
        for part, words in PART_WORDS.items():
            if words in task["problem_description"]:
                mentioned += 1
                assert getattr(page, part) not in ("none", 0)
    assert mentioned > 50


def _site(page):
    return next(site for site in SITES if site.name == page.site)
