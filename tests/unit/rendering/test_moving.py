"""What certainly stands still passes; an SVG picture that may move does not, however it says so."""

import pytest

from sweet_rl.rendering.moving import has_shadow_tree, moves
from tests.support.moving_pages import DRAWINGS, SHADOWS, STILL


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_that_may_move_is_found(name):
    assert moves(DRAWINGS[name].encode())
    assert moves(DRAWINGS[name].encode("utf-16"), "utf-16")


@pytest.mark.parametrize("name", STILL)
def test_a_drawing_that_stands_still_passes_in_the_usual_character_sets_only(name):
    drawing = STILL[name].encode()
    assert not moves(drawing) and not moves(drawing, "UTF-8")
    assert moves(drawing, "iso-2022-jp"), "its bytes may mean other characters than those that were read"


def test_entities_without_an_end_are_no_work_and_do_not_pass():
    laughs = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 30))
    assert moves(f"<!DOCTYPE svg [<!ENTITY a0 'ha'>{laughs}]><svg><style>&a29;</style></svg>".encode())


@pytest.mark.parametrize("name", SHADOWS)
def test_a_shadow_tree_is_found(name):
    assert has_shadow_tree(SHADOWS[name])
    assert has_shadow_tree(SHADOWS[name].replace("&", "&amp;amp;amp;"))


def test_pages_without_shadow_trees_pass():
    assert not has_shadow_tree("<p>a &amp;amp; b &lt; c &shy; shadow root mode</p>")
    assert has_shadow_tree(f"<p>&{'amp;' * 50}</p>") and has_shadow_tree(f"<p>&#{'1' * 10_000};")  # not read to the end
