"""Stand-ins for the photographs of picture services: landscapes that depend on the address alone."""

import hashlib


def picture(width: int, height: int, seed: str) -> bytes:
    """An SVG picture of `width` x `height` pixels whose colours and hills follow from `seed`.

    It stretches like a photograph does (no letterbox) and is drawn by the browser itself, so that its size costs
    nothing here.
    """
    numbers = hashlib.sha256(seed.encode("utf-8", "replace")).digest()
    colours = [[64 + part // 2 for part in numbers[start : start + 3]] for start in (0, 3, 6, 9)]
    sky, glow, far, near = ("#{:02x}{:02x}{:02x}".format(*colour) for colour in colours)
    sun = f'cx="{_part(numbers[12], width, 15, 85)}" cy="{_part(numbers[13], height, 12, 42)}"'
    radius = _part(numbers[14], min(width, height), 6, 16)
    hills = []
    for first, colour, low, high in ((15, far, 38, 62), (21, near, 60, 84)):
        points = " ".join(f"{i * width / 5:g},{_part(numbers[first + i], height, low, high)}" for i in range(6))
        hills.append(f'<polygon fill="{colour}" points="0,{height} {points} {width},{height}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'preserveAspectRatio="none"><defs><linearGradient id="s" x1="0" y1="0" x2="0" y2="1">'
        f'<stop offset="0" stop-color="{sky}"/><stop offset="1" stop-color="{glow}"/></linearGradient></defs>'
        f'<rect width="{width}" height="{height}" fill="url(#s)"/>'
        f'<circle {sun} r="{radius}" fill="#fff" fill-opacity="0.75"/>{"".join(hills)}</svg>'
    ).encode()


def _part(byte: int, length: int, low: int, high: int) -> str:
    """A place between `low` and `high` per cent of `length`, chosen by `byte`."""
    return f"{length * (low + byte % (high - low)) / 100:g}"
