"""What a page's outside references become."""

import hashlib
from xml.etree import ElementTree

import pytest

from sweet_rl.rendering.outside import ADDRESS, Serving, picture, play_script, resolve
from sweet_rl.rendering.stylesheet import stylesheet

JSDELIVR = "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"


@pytest.mark.parametrize(
    "url",
    [
        JSDELIVR,
        "https://unpkg.com/tailwindcss@^2/dist/tailwind.min.css",
        "http://cdn.jsdelivr.net/npm/tailwindcss@2.0.2/dist/tailwind.css",
        "https://cdnjs.cloudflare.com/ajax/libs/tailwindcss/2.2.19/tailwind.min.css",
    ],
)
def test_tailwind_2_is_served_from_the_package(url):
    assert resolve(url, "style").body == stylesheet()


@pytest.mark.parametrize(
    "url, kind",
    [
        ("https://cdn.jsdelivr.net/npm/tailwindcss@1.9.6/dist/tailwind.min.css", "style"),
        ("https://cdn.jsdelivr.net.evil.com/npm/tailwindcss@2.2.19/dist/tailwind.min.css", "style"),
        ("https://cdn.jsdelivr.net@evil.com/npm/tailwindcss@2.2.19/dist/tailwind.min.css", "style"),
        ("https://fonts.googleapis.com/css2?family=Inter", "style"),
        (JSDELIVR, "document"),
        ("https://picsum.photos/200", "document"),
        ("https://picsum.photos/5001/10", "image"),
        ("https://picsum.photos/10/5001", "image"),
        ("https://picsum.photos/0/10", "image"),
        ("https://example.com/a.png", "image"),
        ("file:///etc/passwd", "image"),
        ("https://[broken", "image"),
        ("https://cdn.tailwindcss.com", "image"),
    ],
)
def test_everything_else_is_nothing(url, kind):
    assert resolve(url, kind) is None


@pytest.mark.parametrize(
    "url, size",
    [
        ("https://picsum.photos/id/48/800/240", (800, 240)),
        ("https://picsum.photos/id/48/1600/900-estate", (1600, 900)),
        ("https://picsum.photos/300", (300, 300)),
        ("https://picsum.photos/5000/1", (5000, 1)),
        ("https://picsum.photos/seed/x/200/300.jpg?blur", (200, 300)),
        ("https://source.unsplash.com/random/640x480/?cat", (640, 480)),
        ("https://source.unsplash.com/random", (1080, 720)),
        ("https://images.unsplash.com/photo-1?w=500&h=400&fit=crop", (500, 400)),
        ("https://images.unsplash.com/photo-1?w=600", (600, 400)),
        ("https://images.unsplash.com/photo-1?h=400", (600, 400)),
        ("https://images.unsplash.com/photo-1", (1080, 720)),
    ],
)
def test_pictures_have_the_size_that_is_asked_for(url, size):
    drawn = resolve(url, "image")
    root = ElementTree.fromstring(drawn.body)
    assert drawn.media_type == "image/svg+xml"
    assert (int(root.get("width")), int(root.get("height"))) == size


def test_a_picture_depends_on_what_is_asked_for_and_not_on_its_size():
    def colours(width, height, seed):
        return [part.get("fill") for part in ElementTree.fromstring(picture(width, height, seed)).iter()]

    assert colours(10, 20, "a") == colours(300, 200, "a") != colours(10, 20, "b")


def test_pictures_keep_their_bytes_so_that_pages_keep_theirs():
    drawn = [picture(800, 240, "a"), picture(31, 77, "bcd")]
    assert [hashlib.sha256(svg).hexdigest()[:16] for svg in drawn] == ["25bf411615ba2b5a", "f6983386df01a279"]


def test_the_page_is_served_once_and_then_only_what_it_refers_to():
    page = "<p class=p-4>"
    serving = Serving(javascript=False)
    assert serving.answer(ADDRESS, "document") is None
    serving.open(page)
    assert serving.answer(ADDRESS, "image") is None
    served = serving.answer(ADDRESS, "document")
    assert served.body == page.encode() and served.media_type == "text/html; charset=utf-8"
    assert "script-src 'none'" in served.headers["Content-Security-Policy"]
    assert serving.answer(ADDRESS, "document") is None
    cut = serving.answer(JSDELIVR, "style")
    assert b".p-4{" in cut.body and b".p-5{" not in cut.body
    assert cut.headers == {"Access-Control-Allow-Origin": "*"}


def test_a_page_with_scripts_gets_the_whole_stylesheet():
    serving = Serving(javascript=True)
    serving.open("<p class=p-4>")
    assert "allow-scripts" in serving.answer(ADDRESS, "document").headers["Content-Security-Policy"]
    assert serving.answer(JSDELIVR, "style").body == stylesheet()


def test_what_stands_in_an_address_does_not_get_into_the_picture():
    drawn = resolve("https://source.unsplash.com/9x9/?</svg><script>alert(1)</script>", "image")
    assert b"script" not in drawn.body


def test_the_play_script_comes_with_the_asked_plugins():
    assert resolve("https://cdn.tailwindcss.com/?plugins=forms,typography", "script").body == play_script(
        "all,forms,typography"
    )
    sizes = {name: len(play_script(name)) for name in ("", "forms", "typography", "forms,typography")}
    assert sizes == {"": 366531, "forms": 376897, "typography": 458849, "forms,typography": 471659}
