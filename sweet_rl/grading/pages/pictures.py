"""Stand-ins for the photographs of picture services: landscapes that depend on the address alone."""

import hashlib


def picture(width: int, height: int, seed: str) -> bytes:
    """An SVG picture of `width` x `height` pixels whose colours and hills follow from `seed`.

    It stretches like a photograph does (no letterbox) and is drawn by the browser itself, so that its size costs
    nothing here.
    """
    numbers = hashlib.sha256(seed.encode("utf-8", "replace")).digest()
    sky, glow, far, near = (f"#{numbers[3 * i] // 2 + 64:02x}{numbers[3 * i + 1] // 2 + 64:02x}"
                            f"{numbers[3 * i + 2] // 2 + 80:02x}" for i in range(4))  # fmt: skip
    sun_x, sun_y, sun = 15 + numbers[12] % 70, 12 + numbers[13] % 30, 6 + numbers[14] % 10
    hills = []
    for base, colour, offset in ((50, far, 15), (72, near, 21)):
        points = " ".join(f"{20 * i},{base + numbers[offset + i] % 24 - 12}" for i in range(6))
        hills.append(f'<polygon fill="{colour}" points="0,100 {points} 100,100"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 100 100" '
        'preserveAspectRatio="none"><defs><linearGradient id="s" x1="0" y1="0" x2="0" y2="1">'
        f'<stop offset="0" stop-color="{sky}"/><stop offset="1" stop-color="{glow}"/></linearGradient></defs>'
        '<rect width="100" height="100" fill="url(#s)"/>'
        f'<circle cx="{sun_x}" cy="{sun_y}" r="{sun}" fill="#fff" fill-opacity="0.75"/>{"".join(hills)}</svg>'
    ).encode()
