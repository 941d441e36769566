"""What a browser gets in place of the network: Tailwind's files and pictures made here. Everything else gets a 404."""

import hashlib
import re
from urllib.parse import parse_qs

from sweet_rl.rendering import tailwind

UNSPLASH_SIZE = (1080, 720)  # pixels, if an address names no size
MAX_SIDE = 5000  # pixels; the picture services refuse more


def substitute(host: str, path: str, query: str, page: str | None = None) -> tuple[str, bytes] | None:
    """The media type and the bytes of an address's local substitute; None if there is none.

    Args:
        host: Name of the host, without a port.
        path: Path as the browser writes it, with its `%` escapes.
        query: What follows the path's question mark.
        page: HTML of the page that asks, if it is known: its stylesheet is cut to the rules that can apply to it.
    """
    host = host.lower()
    if tailwind.is_stylesheet(host, path):
        return "text/css", tailwind.stylesheet() if page is None else tailwind.stylesheet_for(page)
    if host == "cdn.tailwindcss.com":
        plugins = parse_qs(query).get("plugins", [""])[-1]
        return "text/javascript", tailwind.play_script(plugins)
    return _picture(host, path, query)


def _picture(host: str, path: str, query: str) -> tuple[str, bytes] | None:
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
    return "image/svg+xml", picture(width, height, seed=f"{host}{which}")


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
