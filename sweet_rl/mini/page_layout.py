"""Where the things on a mini page stand, computed from its style sheet: the browser's boxes without a browser.

Imitation makes tens of thousands of pages; drawing each would take an hour. A test holds the two to each other.
"""

from __future__ import annotations

from sweet_rl.mini.page_elements import Look, look_at
from sweet_rl.mini.pages import HEIGHT, IMAGE_SOURCE, WIDTH, Page
from sweet_rl.mini.sites import BY_NAME

COLORS = {
    "white": (255, 255, 255), "cornsilk": (255, 248, 220), "lightgray": (211, 211, 211), "lightblue": (173, 216, 230),
    "pink": (255, 192, 203), "navy": (0, 0, 128), "teal": (0, 128, 128), "green": (0, 128, 0),
    "crimson": (220, 20, 60), "purple": (128, 0, 128), "darkorange": (255, 140, 0), "black": (0, 0, 0),
    "gold": (255, 215, 0), "plum": (221, 160, 221), "lightgreen": (144, 238, 144), "sandybrown": (244, 164, 96),
    "gray": (128, 128, 128),
}  # fmt: skip


def layout(page: Page) -> Look:
    """Return the page as the designer sees it."""
    site = BY_NAME[page.site]
    boxes = [_box("body", "", 0, 0, WIDTH, 0, page.background)]
    boxes.append(_box("header", page.site, 0, 0, WIDTH, 64, page.header, "white"))
    top = 64
    section = top + (180 if page.image == "top" else 0)
    if page.image != "none":
        x = WIDTH / 2 if page.image == "right" else 0
        width = WIDTH if page.image == "top" else WIDTH / 2
        boxes.append(_box("img", "", x, top, width, 180, image=IMAGE_SOURCE))
    x = WIDTH / 2 + 24 if page.image == "left" else 24
    room = WIDTH - x - (WIDTH / 2 if page.image == "right" else 24)
    boxes.append(_box("h1", page.heading, x, section + 24, room, 72, color="black"))
    end = section + 120
    if page.button != "none":
        boxes.append(_box("button", site.button, x, section + 120, 160, 48, page.button, "white", font_size=20))
        end = section + 180
    if page.image in ("left", "right"):
        end = max(end, section + 180)
    if page.boxes:
        width = (WIDTH - 48 - 24 * (page.boxes - 1)) / page.boxes
        for number, text in enumerate(site.boxes[: page.boxes]):
            boxes.append(_box("p", text, 24 + number * (width + 24), end + 24, width, 100, page.box_color))
        end += 148
    if page.footer != "none":
        boxes.append(_box("footer", "Contact", 0, end, WIDTH, 64, page.footer, "white"))
        end += 64
    return look_at(boxes, WIDTH, max(end, HEIGHT))


def _box(
    tag: str,
    text: str,
    x: float,
    y: float,
    width: float,
    height: float,
    background: str | None = None,
    color: str = "black",
    image: str | None = None,
    font_size: int = 24,
) -> dict:
    seen = (*COLORS[background], 1.0) if background else None
    return {
        "tag": tag, "text": text, "x": x, "y": y, "width": width, "height": height, "background": seen,
        "color": (*COLORS[color], 1.0), "image": image, "font_size": font_size,
    }  # fmt: skip
