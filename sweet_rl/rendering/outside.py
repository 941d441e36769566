"""What a browser gets in place of the network: the page itself, Tailwind's files, pictures made here, or nothing."""

import hashlib
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from sweet_rl.rendering import fetch, scripts
from sweet_rl.rendering.stylesheet import stylesheet, stylesheet_for

ADDRESS = "http://page.invalid/"  # of the page that is drawn; .invalid is reserved and resolves to nothing
PLUGINS = ("aspect-ratio", "container-queries", "forms", "typography")
UNSPLASH_SIZE = (1080, 720)  # pixels, if an address names no size
MAX_SIDE = 5000  # pixels; the picture services refuse more


@dataclass(frozen=True)
class Resource:
    """The response to a request: its media type, its bytes, and headers beside the media type."""

    media_type: str
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"Access-Control-Allow-Origin": "*"})


class Serving:
    """Answers the requests of one page after another."""

    def __init__(self, javascript: bool) -> None:
        self._javascript = javascript
        self._page, self._wanted = "", False

    def open(self, page: str) -> None:
        """Makes `page` the response to the next request for ADDRESS."""
        self._page, self._wanted = page, True

    def answer(self, url: str, kind: str) -> Resource | None:
        """The response to a request for `url` as a `kind` ("document", "style", "image", ...); None: it fails."""
        if self._wanted and url == ADDRESS and kind == "document":
            self._wanted = False
            headers = {"Content-Security-Policy": scripts.policy(self._page, self._javascript)}
            return Resource("text/html; charset=utf-8", self._page.encode("utf-8", "replace"), headers)
        return resolve(url, kind, None if self._javascript else self._page)


def resolve(url: str, kind: str, page: str | None = None) -> Resource | None:
    """The local substitute of `url`; None if there is none.

    Args:
        url: Address, which may be any text.
        kind: "style", "script", "image" or another destination of the Fetch standard.
        page: HTML of a page without scripts of its own: its stylesheet is cut to the rules that can apply to it.
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
    """Whether an address is that of Tailwind 2's stylesheet on one of the services that serve npm packages."""
    if host in ("cdn.jsdelivr.net", "unpkg.com"):
        path = path.removeprefix("/npm")
        return bool(re.fullmatch(r"/tailwindcss@\^?2(\.[0-9.]+)?/dist/tailwind(\.min)?\.css", path))
    if host == "cdnjs.cloudflare.com":
        return bool(re.fullmatch(r"/ajax/libs/tailwindcss/2[0-9.]+/tailwind(\.min)?\.css", path))
    return False


def play_script(plugins: str) -> bytes:
    """Tailwind 3.4.10's play script with the plugins of an address ("forms,typography"); if several, with all."""
    asked = {name for name in plugins.split(",") if name in PLUGINS}
    suffix = "" if not asked else f"-with-{asked.pop()}" if len(asked) == 1 else "-with-all-plugins"
    return fetch.read(f"tailwindcss{suffix}.js")


def _picture(host: str, path: str, query: str) -> Resource | None:
    """The substitute of a photograph; None for addresses of no picture service, and for sizes that it would refuse."""
    if host in ("picsum.photos", "www.picsum.photos", "fastly.picsum.photos", "unsplash.it"):
        # Text after the height is ignored: ".jpg", or words of a search that a data set left there.
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


def picture(width: int, height: int, seed: str) -> bytes:
    """An SVG picture of `width` x `height` pixels whose colours and hills follow from `seed`.

    It stands in for a photograph: it stretches like one (no letterbox) and depends on the address alone.
    """
    numbers = hashlib.sha256(seed.encode("utf-8", "replace")).digest()
    colours = [[64 + part // 2 for part in numbers[start : start + 3]] for start in (0, 3, 6, 9)]
    sky, glow, far, near = ("#{:02x}{:02x}{:02x}".format(*colour) for colour in colours)
    sun = f'cx="{_position(numbers[12], width, 15, 85)}" cy="{_position(numbers[13], height, 12, 42)}"'
    radius = _position(numbers[14], min(width, height), 6, 16)
    hills = []
    for first, colour, low, high in ((15, far, 38, 62), (21, near, 60, 84)):
        points = " ".join(f"{i * width / 5:g},{_position(numbers[first + i], height, low, high)}" for i in range(6))
        hills.append(f'<polygon fill="{colour}" points="0,{height} {points} {width},{height}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'preserveAspectRatio="none"><defs><linearGradient id="s" x1="0" y1="0" x2="0" y2="1">'
        f'<stop offset="0" stop-color="{sky}"/><stop offset="1" stop-color="{glow}"/></linearGradient></defs>'
        f'<rect width="{width}" height="{height}" fill="url(#s)"/>'
        f'<circle {sun} r="{radius}" fill="#fff" fill-opacity="0.75"/>{"".join(hills)}</svg>'
    ).encode()


def _position(byte: int, length: int, low: int, high: int) -> str:
    """A position between `low` and `high` per cent of `length`, chosen by `byte`."""
    return f"{length * (low + byte % (high - low)) / 100:g}"
