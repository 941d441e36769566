"""What a page's references to the outside become: files of the package, pictures made on the spot, or nothing."""

import re
import tarfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from sweet_rl.rendering.pictures import picture
from sweet_rl.rendering.stylesheet import stylesheet, stylesheet_for

PLAY_SCRIPTS = Path(__file__).parent / "files" / "tailwindcss-cdn-3.4.10.tar.xz"
PLUGINS = ("aspect-ratio", "container-queries", "forms", "typography")
UNSPLASH_SIZE = (1080, 720)  # pixels, where an address names none
MAX_SIDE = 5000  # pixels; the picture services refuse more


@dataclass(frozen=True)
class Resource:
    """The answer to a request: its media type, its bytes, and headers beside the media type."""

    media_type: str
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"Access-Control-Allow-Origin": "*"})


def resolve(url: str, kind: str, page: str | None = None) -> Resource | None:
    """What the package has in place of `url`, asked for as a `kind` ("style", "script", "image" or another of the
    Fetch standard's destinations); None for everything it has nothing for.

    `page` is the HTML of a page without scripts of its own: its stylesheet is then cut to what can touch it.
    """
    try:
        parts = urlsplit(url)
        host, path = (parts.hostname or "").lower(), parts.path
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    if kind == "style" and is_stylesheet(host, path):
        return Resource("text/css", stylesheet() if page is None else stylesheet_for(page))
    if kind == "script" and host == "cdn.tailwindcss.com":
        return Resource("text/javascript", play_script(parse_qs(parts.query).get("plugins", [""])[-1]))
    if kind == "image":
        return _picture(host, path, parts.query)
    return None


def is_stylesheet(host: str, path: str) -> bool:
    """Whether a request is for the stylesheet of Tailwind 2, at any of the places that serve npm packages."""
    if host in ("cdn.jsdelivr.net", "unpkg.com"):
        path = path.removeprefix("/npm")
        return bool(re.fullmatch(r"/tailwindcss@\^?2(\.[0-9.]+)?/dist/tailwind(\.min)?\.css", path))
    if host == "cdnjs.cloudflare.com":
        return bool(re.fullmatch(r"/ajax/libs/tailwindcss/2[0-9.]+/tailwind(\.min)?\.css", path))
    return False


@lru_cache(maxsize=8)
def play_script(plugins: str) -> bytes:
    """Tailwind 3.4.10's play script with the asked plugins ("forms,typography"); with several, with all of them."""
    asked = {name for name in plugins.split(",") if name in PLUGINS}
    suffix = "" if not asked else f"-with-{asked.pop()}" if len(asked) == 1 else "-with-all-plugins"
    with tarfile.open(PLAY_SCRIPTS) as archive:
        return archive.extractfile(f"tailwindcss{suffix}.js").read()


def _picture(host: str, path: str, query: str) -> Resource | None:
    """The picture of a picture service's address; None for other addresses and for sizes that it would refuse."""
    if host in ("picsum.photos", "www.picsum.photos", "fastly.picsum.photos", "unsplash.it"):
        # What follows the height (".jpg", or words of a search that a data set left there) does not count.
        found = re.fullmatch(r"(?:/g)?((?:/(?:id|seed)/[^/]+)?)/(\d{1,5})(?:/(\d{1,5}))?(?:[^/\d][^/]*)?/?", path)
        if not found:
            return None
        which, width, height = found[1] or f"?{query}", int(found[2]), int(found[3] or found[2])
    elif host == "source.unsplash.com":
        found = re.search(r"/(\d{1,5})x(\d{1,5})(?=/|$)", path)
        width, height = (int(found[1]), int(found[2])) if found else UNSPLASH_SIZE
        which = f"{re.sub(r'/[0-9]+x[0-9]+', '', path)}?{query}"
    elif host in ("images.unsplash.com", "plus.unsplash.com"):
        numbers = {key: re.fullmatch(r"\d{1,5}", values[-1]) for key, values in parse_qs(query).items()}
        asked = {key: int(found[0]) for key, found in numbers.items() if found}
        ratio = UNSPLASH_SIZE[0] / UNSPLASH_SIZE[1]
        width = asked.get("w") or (round(asked["h"] * ratio) if asked.get("h") else UNSPLASH_SIZE[0])
        height = asked.get("h") or round(width / ratio)
        which = path
    else:
        return None
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        return None
    return Resource("image/svg+xml", picture(width, height, seed=f"{host}{which}"))
