"""What a page's outside references become."""

import hashlib
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from sweet_rl.rendering.substitutes import picture, substitute
from sweet_rl.rendering.tailwind import play_script, stylesheet


def resolve(url):
    parts = urlsplit(url)
    return substitute(parts.netloc, parts.path, parts.query)


@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css",
        "http://cdn.jsdelivr.net/npm/tailwindcss@2.0.2/dist/tailwind.css",
        "https://unpkg.com/tailwindcss@2/dist/tailwind.min.css",
        "https://unpkg.com/tailwindcss@^2/dist/tailwind.min.css",
        "https://unpkg.com/tailwindcss@%5E2.2/dist/tailwind.min.css",
        "https://cdn.jsdelivr.net/npm/tailwindcss@2.x/dist/tailwind.min.css",
        "https://cdn.jsdelivr.net/npm/tailwindcss@~2.2/dist/tailwind.min.css",
        "https://cdnjs.cloudflare.com/ajax/libs/tailwindcss/2.2.19/tailwind.min.css",
    ],
)
def test_tailwind_2_is_served_from_the_package(url):
    assert resolve(url)[1] == stylesheet()


@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.jsdelivr.net/npm/tailwindcss@1.9.6/dist/tailwind.min.css",
        "https://cdn.jsdelivr.net.evil.com/npm/tailwindcss@2.2.19/dist/tailwind.min.css",
        "https://fonts.googleapis.com/css2?family=Inter",
        "https://picsum.photos/5001/10",
        "https://picsum.photos/10/5001",
        "https://picsum.photos/0/10",
        "https://example.com/a.png",
    ],
)
def test_everything_else_is_nothing(url):
    assert resolve(url) is None


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
    media_type, drawn = resolve(url)
    root = ElementTree.fromstring(drawn)
    assert media_type == "image/svg+xml"
    assert (int(root.get("width")), int(root.get("height"))) == size


def test_pictures_keep_their_bytes_so_that_pages_keep_theirs():
    drawn = [picture(800, 240, "a"), picture(31, 77, "bcd"), resolve("https://picsum.photos/id/48/320/200")[1]]
    hashes = [hashlib.sha256(svg).hexdigest()[:16] for svg in drawn]
    assert hashes == ["25bf411615ba2b5a", "f6983386df01a279", "e9d117d433697ece"]


def test_what_stands_in_an_address_does_not_get_into_the_picture():
    assert b"script" not in resolve("https://source.unsplash.com/9x9/?</svg><script>alert(1)</script>")[1]


def test_the_play_script_comes_with_the_asked_plugins():
    assert resolve("https://cdn.tailwindcss.com/?plugins=forms,typography")[1] == play_script("all,forms,typography")
    sizes = {name: len(play_script(name)) for name in ("", "forms", "typography", "forms,typography")}
    assert sizes == {"": 366531, "forms": 376897, "typography": 458849, "forms,typography": 471659}
