"""Pages drawn by a real browser: pictures, boxes, the pool, the cache."""

import io
import struct

import pytest

from tests.grading.pages.browsers import renderer_or_skip

TAILWIND = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'
PAGE = f"""<html>{TAILWIND}<body class="bg-gray-100">
<header class="bg-green-500 text-white p-4"><h1 class="text-3xl font-bold">Clinic</h1></header>
<img src="https://picsum.photos/id/48/320/200" alt="a view"></body></html>"""


@pytest.fixture(scope="module")
def renderer():
    with renderer_or_skip(workers=2, cache=0) as made:
        yield made


def size(png):
    return struct.unpack(">II", png[16:24])


def pixel(png, x, y):
    pillow = pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")
    return pillow.open(io.BytesIO(png)).convert("RGB").getpixel((x, y))


def test_a_page_is_drawn_at_the_set_width_with_tailwinds_colours(renderer):
    rendered = renderer.render(PAGE)
    assert rendered.failure is None
    assert size(rendered.png) == (rendered.width, rendered.height) == (1280, 720)
    assert pixel(rendered.png, 1000, 20) == (16, 185, 129)  # green-500 of Tailwind 2
    assert pixel(rendered.png, 1000, 600) == (243, 244, 246)  # gray-100


def test_the_same_page_gives_the_same_bytes_from_either_browser(renderer):
    first = [drawn.png for drawn in renderer.render_all([PAGE] * 4)]
    assert len(set(first)) == 1


def test_boxes_tell_where_what_stands_and_how_it_looks(renderer):
    boxes = renderer.render(PAGE, layout=True).boxes
    header, heading, image = (next(box for box in boxes if box["tag"] == tag) for tag in ("header", "h1", "img"))
    assert (header["x"], header["y"], header["width"], header["height"]) == (0, 0, 1280, 68)
    assert header["background"] == (16, 185, 129, 1.0)
    assert (heading["text"], heading["font_size"], heading["font_weight"]) == ("Clinic", 30.0, 700)
    assert heading["color"] == (255, 255, 255, 1.0) and boxes[heading["parent"]] is header
    assert (image["width"], image["height"], image["alt"]) == (320, 200, "a view")
    assert image["image"] == "https://picsum.photos/id/48/320/200"
