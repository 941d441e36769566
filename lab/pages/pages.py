"""Mini pages: a small subset of HTML that a tiny agent can write, as a record, as HTML, and as a browser lays it out.

A page belongs to a site. It has a header, an image or none, a heading, a button or none, no, two or three boxes side by
side, and a footer or none. Sizes are fixed in the style sheet, so that the layout is known without a browser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from lab.pages.page_elements import Look, look_at


@dataclass(frozen=True)
class Site:
    """One site: the client's words for it, its name, its possible headings, and the texts of its button and boxes."""

    wish: str
    name: str
    headings: tuple[str, ...]
    button: str
    boxes: tuple[str, str, str]


SITES: tuple[Site, ...] = (
    Site("a bakery", "Sunny Bakery", ("Fresh bread every day", "Cakes for your party", "We open at six"),
         "Order now", ("Bread", "Cakes", "Pies")),
    Site("a school", "Hill School", ("Learning is fun", "Our summer party", "Meet the teachers"),
         "Sign up", ("Classes", "Teachers", "Trips")),
    Site("a hotel", "Lake Hotel", ("Rest by the water", "Rooms with a view", "Stay three nights"),
         "Book a room", ("Rooms", "Food", "Spa")),
    Site("a music band", "The Foxes", ("Our new album", "On tour this year", "Songs from the woods"),
         "Listen", ("Songs", "Dates", "Shop")),
    Site("a bicycle shop", "Fast Wheels", ("Bikes for everyone", "Repairs in one day", "Ride to work"),
         "See bikes", ("Bikes", "Repairs", "Helmets")),
    Site("a dentist", "Doctor Green", ("A healthy smile", "No more fear", "Care for children"),
         "Call us", ("Team", "Prices", "Hours")),
    Site("a travel agency", "Blue Sky Tours", ("Find your island", "Flights and more", "Winter in the sun"),
         "Search", ("Beaches", "Cities", "Islands")),
    Site("a flower shop", "Rose Corner", ("Flowers for her", "Roses in winter", "We deliver today"),
         "Send flowers", ("Roses", "Tulips", "Plants")),
    Site("a gym", "Iron House", ("Get strong with us", "Train at any hour", "The first week is free"),
         "Join", ("Weights", "Yoga", "Coaches")),
    Site("a museum", "City Museum", ("Art from ten lands", "The gold of the kings", "A day with dinosaurs"),
         "Buy tickets", ("Art", "History", "Nature")),
)  # fmt: skip
SITE_BY_NAME = {site.name: site for site in SITES}

STRONG = ("navy", "teal", "green", "crimson", "purple", "darkorange", "black")
"""Backgrounds of headers, buttons and footers, under white text."""
PALE = ("white", "cornsilk", "lightgray", "lightblue", "pink")
"""Backgrounds of whole pages."""
BOXES = ("gold", "plum", "lightgreen", "sandybrown", "gray")
"""Backgrounds of the boxes."""
IMAGES = ("none", "left", "right", "top")


WIDTH, HEIGHT = 480, 360
"""Pixels of the window in which mini pages are drawn; a longer page makes a longer picture."""

STYLE = (
    "body{margin:0;font:24px sans-serif}header,footer{padding:16px 24px;height:32px;color:white}"
    "section{display:flow-root}img{height:180px;width:50%}.left{float:left;margin-right:24px}.right{float:right}"
    ".top{display:block;width:100%}h1{margin:24px;height:72px;font-size:24px;overflow:hidden}"
    "button{display:block;margin:0 24px 12px;width:160px;height:48px;border:0;color:white;font-size:20px}"
    "main{display:flex;gap:24px;padding:24px}p{flex:1;margin:0;padding:8px;height:84px}"
)
OPENING = f"<html><head><style>{STYLE}</style></head>\n"
IMAGE_SOURCE = "https://picsum.photos/id/48/400/300"


@dataclass(frozen=True)
class Page:
    """One page. `boxes` counts 0, 2 or 3; "none" stands for no image, button or footer."""

    site: str
    background: str
    header: str
    image: str
    heading: str
    button: str
    boxes: int
    box_color: str
    footer: str

    def settled(self) -> Page:
        """Return the page in its normal form: without boxes, their color is the first one."""
        return self if self.boxes else replace(self, box_color=BOXES[0])

    def html(self) -> str:
        """Return the page as HTML."""
        site = SITE_BY_NAME[self.site]
        lines = [
            f'<body style="background:{self.background}">',
            f'<header style="background:{self.header}">{self.site}</header>',
            "<section>",
        ]
        if self.image != "none":
            lines.append(f'<img class="{self.image}" src="{IMAGE_SOURCE}">')
        lines.append(f"<h1>{self.heading}</h1>")
        if self.button != "none":
            lines.append(f'<button style="background:{self.button}">{site.button}</button>')
        lines.append("</section>")
        if self.boxes:
            lines.append("<main>")
            lines += [f'<p style="background:{self.box_color}">{text}</p>' for text in site.boxes[: self.boxes]]
            lines.append("</main>")
        if self.footer != "none":
            lines.append(f'<footer style="background:{self.footer}">Contact</footer>')
        return OPENING + "\n".join(lines) + "\n</body></html>"


PARTS = tuple(field.name for field in fields(Page) if field.name != "site")
"""Fields that can differ between two pages of one site."""


def read_page(html: str) -> Page | None:
    """Return the page that `html` was written from, or None for any other HTML."""
    found = _PAGE.fullmatch(html.strip())
    if found is None:
        return None
    texts = re.findall(r'<p style="background:(\w+)">', found["main"] or "")
    page = Page(
        site=found["site"],
        background=found["background"],
        header=found["header"],
        image=found["image"] or "none",
        heading=found["heading"],
        button=found["button"] or "none",
        boxes=len(texts),
        box_color=texts[0] if texts else BOXES[0],
        footer=found["footer"] or "none",
    )
    return page if page.site in SITE_BY_NAME and page.html() == html.strip() else None


_PAGE = re.compile(
    re.escape(OPENING)
    + r"""<body style="background:(?P<background>\w+)">
<header style="background:(?P<header>\w+)">(?P<site>[^<]+)</header>
<section>
(?:<img class="(?P<image>\w+)" src="[^"]*">
)?<h1>(?P<heading>[^<]+)</h1>
(?:<button style="background:(?P<button>\w+)">[^<]+</button>
)?</section>
(?:<main>(?P<main>.*)</main>
)?(?:<footer style="background:(?P<footer>\w+)">Contact</footer>
)?</body></html>""",
    re.DOTALL,
)


def fixed_texts() -> list[str]:
    """Return the pieces of HTML that all pages, or all pages of a site, have in common, longest first."""
    texts = [
        f'{OPENING}<body style="background:', '">\n<header style="background:', "<h1>", "</h1>\n", "</section>\n",
        "<main>\n", "</main>\n", '<button style="background:', '<p style="background:', '<footer style="background:',
        '">Contact</footer>\n', "</body></html>",
    ]  # fmt: skip
    texts += [f'<img class="{image}" src="{IMAGE_SOURCE}">\n' for image in IMAGES if image != "none"]
    for site in SITE_BY_NAME.values():
        texts.append(f'">{site.name}</header>\n<section>\n')
        texts += [f'">{label}</button>\n' if label == site.button else f'">{label}</p>\n'
                  for label in (site.button, *site.boxes)]  # fmt: skip
    return sorted(set(texts), key=lambda text: (-len(text), text))


COLORS = {
    "white": (255, 255, 255), "cornsilk": (255, 248, 220), "lightgray": (211, 211, 211), "lightblue": (173, 216, 230),
    "pink": (255, 192, 203), "navy": (0, 0, 128), "teal": (0, 128, 128), "green": (0, 128, 0),
    "crimson": (220, 20, 60), "purple": (128, 0, 128), "darkorange": (255, 140, 0), "black": (0, 0, 0),
    "gold": (255, 215, 0), "plum": (221, 160, 221), "lightgreen": (144, 238, 144), "sandybrown": (244, 164, 96),
    "gray": (128, 128, 128),
}  # fmt: skip


def layout(page: Page) -> Look:
    """Return the page as the designer sees it, computed from its style sheet without a browser.

    Imitation makes tens of thousands of pages, and drawing each would take an hour. A test compares both ways.
    """
    site = SITE_BY_NAME[page.site]
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
