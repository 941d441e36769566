"""The boxes of pages that a real browser has drawn, and computed colours."""

import json

import pytest

from lab.pages.boxes import boxes, colour
from tests.support.browsers import renderer_or_skip

TAILWIND = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'
PAGE = f"""<html>{TAILWIND}<body class="bg-gray-100">
<header class="bg-green-500 text-white p-4"><h1 class="text-3xl font-bold">Clinic</h1></header>
<img src="https://picsum.photos/id/48/320/200" alt="a view"></body></html>"""


@pytest.fixture(scope="module")
def renderer():
    with renderer_or_skip(workers=1, cache=0, timeout=60) as made:
        yield made


@pytest.mark.parametrize(
    "text, expected",
    [
        ("rgb(1, 2, 3)", (1, 2, 3, 1.0)),
        ("rgba(1, 2, 3, 0.5)", (1, 2, 3, 0.5)),
        ("color(srgb 1 0.5 -0.1 / 0.25)", (255, 128, 0, 0.25)),
        ("color(srgb 2 0 1e-1)", (255, 0, 26, 1.0)),
        ("lab(1 2 3)", None),
        ("none", None),
    ],
)
def test_a_computed_colour_is_read_in_each_notation(text, expected):
    assert colour(text) == expected


def test_boxes_tell_where_what_stands_and_how_it_looks(renderer):
    found = boxes(renderer.render(PAGE, layout=True).layout)
    header, heading, image = (next(box for box in found if box["tag"] == tag) for tag in ("header", "h1", "img"))
    assert (header["x"], header["y"], header["width"], header["height"]) == (0, 0, 1280, 68)
    assert header["background"] == (16, 185, 129, 1.0)
    assert (heading["text"], heading["font_size"], heading["color"]) == ("Clinic", 30.0, (255, 255, 255, 1.0))
    assert (image["width"], image["height"]) == (320, 200)
    assert image["image"] == "https://picsum.photos/id/48/320/200"


def test_boxes_leave_out_what_is_not_seen_and_own_their_texts(renderer):
    page = """<!doctype html><body><p>one <b>two</b> three</p><p style="display:none">gone</p>
    <p style="visibility:hidden">gone <q style="visibility:visible">seen</q></p><div style="opacity:0"><p>gone</p></div>
    <input placeholder="a name"><input value="typed" placeholder="gone"><input type="CHECKBOX" value="gone"><br>
    <textarea>long</textarea><i style="background:url(https://picsum.photos/9)">i</i>
    <s style="background:linear-gradient(red,blue)">s</s>
    <a href="#x" style="color:rgba(1,2,3,0.5)">l</a><style>u::before{content:"before "}</style><u>u</u>"""
    found = boxes(renderer.render(page, layout=True).layout)
    by_tag = {box["tag"]: box for box in found}
    assert "gone" not in json.dumps(found) and "seen" in by_tag["q"]["text"]
    assert (by_tag["p"]["text"], by_tag["b"]["text"]) == ("one three", "two") and not by_tag.keys() & {"html", "br"}
    assert [box["text"] for box in found if box["tag"] == "input"] == ["a name", "typed", ""]
    assert by_tag["textarea"]["text"] == "long" and by_tag["p"]["background"] is None
    assert (by_tag["i"]["image"], by_tag["s"]["image"]) == ("https://picsum.photos/9", None)
    assert by_tag["a"]["color"] == (1, 2, 3, 0.5)
    assert by_tag["u"]["text"] == "before u"
