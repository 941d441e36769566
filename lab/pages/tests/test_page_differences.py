"""What the scripted designer says of two pages, from boxes as the browser gives them."""

import random

import pytest

from lab.pages.page_differences import SATISFIED, differences, feedback
from lab.pages.page_elements import look_at

WHITE, NAVY, GREEN, BLACK = (255, 255, 255, 1.0), (0, 0, 128, 1.0), (0, 128, 0, 1.0), (0, 0, 0, 1.0)
PALE = (173, 216, 230, 1.0)
WIDTH, HEIGHT = 1000, 800


def box(tag, x, y, width, height, text="", background=None, image=None, font_size=16, color=BLACK):
    return {
        "tag": tag, "text": text, "x": x, "y": y, "width": width, "height": height, "background": background,
        "color": color, "image": image, "font_size": font_size,
    }  # fmt: skip


BODY = box("body", 0, 0, WIDTH, HEIGHT, background=WHITE)
HEADER = box("header", 0, 0, WIDTH, 100, background=NAVY)
TITLE = box("h1", 50, 150, 400, 50, text="Fresh bread every day", font_size=40)
PICTURE = box("img", 0, 250, 500, 300, image="https://picsum.photos/id/48/500/300")
BOXES = [box("div", 50 + 300 * n, 600, 250, 100, text=name, background=GREEN) for n, name in enumerate("ABC")]
PAGE = [BODY, HEADER, TITLE, PICTURE, *BOXES]


def said(wanted, drawn):
    found = differences(look_at(wanted, WIDTH, HEIGHT), look_at(drawn, WIDTH, HEIGHT))
    return [difference.sentences[0] for difference in found]


def changed(page, old, **new):
    return [{**one, **new} if one is old else one for one in page]


def test_a_page_differs_in_nothing_from_itself():
    assert said(PAGE, PAGE) == []
    look = look_at(PAGE, WIDTH, HEIGHT)
    assert feedback(look, look, random.Random(0)) in SATISFIED


@pytest.mark.parametrize(
    "drawn, words",
    [
        (changed(PAGE, HEADER, background=GREEN), "The header should be dark blue instead of green."),
        (changed(PAGE, BODY, background=PALE), "The background of the page should be white instead of light blue."),
        (changed(PAGE, TITLE, text="Welcome"), 'The title should read "Fresh bread every day".'),
        (changed(PAGE, TITLE, font_size=20), "The title should be larger."),
        (changed(PAGE, PICTURE, x=500), "The picture should be on the left instead of on the right."),
        (
            [one for one in PAGE if one is not PICTURE],
            "There is a picture missing halfway down, on the left, about half the page wide.",
        ),
        (
            changed(PAGE, PICTURE, width=WIDTH),
            "The picture should be on the left, about half the page wide, instead of across the whole page.",
        ),
        ([one for one in PAGE if one is not BOXES[2]], "There should be three boxes side by side instead of two."),
        (
            [one for one in PAGE if one not in BOXES],
            "There are three green boxes side by side missing at the bottom, in the middle.",
        ),
        ([*PAGE, box("button", 50, 720, 100, 40, text="Buy", background=NAVY)], 'Please leave out the button "Buy".'),
        (
            [{**one, "background": NAVY} if one in BOXES else one for one in PAGE],
            "The three boxes should be green instead of dark blue.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_difference_is_told_in_words_and_nothing_else_is(drawn, words):
    assert said(PAGE, drawn) == [words]


def test_the_most_striking_difference_comes_first():
    drawn = changed(changed(PAGE, HEADER, background=GREEN), TITLE, text="Welcome")
    drawn = [one for one in drawn if one is not PICTURE]
    words = said(PAGE, drawn)
    assert ["picture" in words[0], "header" in words[1], "title" in words[2]] == [True] * 3


def test_what_only_moved_down_is_not_told():
    banner = box("img", 0, 0, WIDTH, 200, image="a.png")
    lower = [BODY, banner, *({**one, "y": one["y"] + 200} for one in PAGE[1:])]
    found = differences(look_at(lower, WIDTH, HEIGHT + 200), look_at(PAGE, WIDTH, HEIGHT))
    words = [difference.sentences[0] for difference in found]
    assert words == ["There is a picture missing at the top, across the whole page."]


def test_a_color_of_the_same_name_is_told_as_lighter_or_darker():
    darker, lighter = (0, 80, 20, 1.0), (60, 170, 80, 1.0)
    words = said(changed(PAGE, HEADER, background=lighter), changed(PAGE, HEADER, background=(20, 130, 50, 1.0)))
    assert words == ["The header should be a lighter green instead of green."]
    words = said(changed(PAGE, HEADER, background=darker), changed(PAGE, HEADER, background=lighter))
    assert "dark green" in words[0]


def test_one_or_two_differences_are_named_at_once_and_the_same_seed_gives_the_same_words():
    drawn = look_at([BODY], WIDTH, HEIGHT)
    wanted = look_at(PAGE, WIDTH, HEIGHT)
    counts = set()
    for seed in range(20):
        words = feedback(wanted, drawn, random.Random(seed))
        assert words == feedback(wanted, drawn, random.Random(seed))
        counts.add(words.count("."))
    assert counts == {1, 2}
