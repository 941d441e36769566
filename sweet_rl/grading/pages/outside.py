"""What a page's references to the outside become: files of the package, pictures made on the spot, or nothing."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from sweet_rl.grading.pages.pictures import picture
from sweet_rl.grading.pages.stylesheet import stylesheet, stylesheet_for

MAX_SIDE = 5000  # pixels; the picture services refuse more


@dataclass(frozen=True)
class Resource:
    """The answer to a request: its media type and its bytes."""

    media_type: str
    body: bytes


def resolve(url: str, page: str | None = None) -> Resource | None:
    """What the package has in place of `url`; None for everything it has nothing for.

    `page` is the HTML of a page without scripts: its stylesheet is then cut to what can touch it.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    host, path = (parts.hostname or "").lower(), parts.path
    if is_stylesheet(host, path):
        return Resource("text/css", stylesheet() if page is None else stylesheet_for(page))
    size = _picture_size(host, path, parts.query)
    if size is not None and max(size) <= MAX_SIDE and min(size) >= 1:
        return Resource("image/svg+xml", picture(*size, seed=f"{host}{path}?{parts.query}"))
    return None


def is_stylesheet(host: str, path: str) -> bool:
    """Whether a request is for the stylesheet of Tailwind 2, at any of the places that serve npm packages."""
    if host in ("cdn.jsdelivr.net", "unpkg.com"):
        path = path.removeprefix("/npm")
        return bool(re.fullmatch(r"/tailwindcss@\^?2(\.[0-9.]+)?/dist/tailwind(\.min)?\.css", path))
    if host == "cdnjs.cloudflare.com":
        return bool(re.fullmatch(r"/ajax/libs/tailwindcss/2[0-9.]+/tailwind(\.min)?\.css", path))
    return False


def _picture_size(host: str, path: str, query: str) -> tuple[int, int] | None:
    """The (width, height) that a picture's address asks for, or None where it is no picture's address."""
    if host in ("picsum.photos", "www.picsum.photos", "fastly.picsum.photos", "unsplash.it"):
        found = re.fullmatch(r"(?:/g)?(?:/(?:id|seed)/[^/]+)?/(\d+)(?:/(\d+))?(?:[^/\d][^/]*)?/?", path)
        if not found:
            return None
        return int(found[1]), int(found[2] or found[1])
    if host == "source.unsplash.com":
        found = re.search(r"/(\d+)x(\d+)(?=/|$)", path)
        return (int(found[1]), int(found[2])) if found else (1080, 720)
    if host in ("images.unsplash.com", "plus.unsplash.com"):
        asked = {key: values[-1] for key, values in parse_qs(query).items()}
        width, height = (int(asked.get(key, "")) if asked.get(key, "").isdigit() else None for key in ("w", "h"))
        if width is None and height is None:
            return 1080, 720
        return width or round(height * 3 / 2), height or round(width * 2 / 3)
    return None
