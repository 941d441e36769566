"""Mini pages: a small subset of HTML that a tiny agent can write, as a record, as HTML, and as the browser lays it out.

A page holds a header, an image or none, a heading, a button or none, no, two or three boxes side by side, and
a footer or none. Its sizes are fixed in the style sheet, so that where everything stands is known without a browser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from sweet_rl.mini.sites import BOXES, BY_NAME, IMAGES

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
        """Return the page with the color of boxes that it does not have set to the first one: equal pages are equal."""
        return self if self.boxes else replace(self, box_color=BOXES[0])

    def html(self) -> str:
        """Return the page as HTML."""
        site = BY_NAME[self.site]
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
"""What can differ between two pages of one site."""


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
    return page if page.site in BY_NAME and page.html() == html.strip() else None


_PAGE = re.compile(
    re.escape(OPENING)
    + r'''<body style="background:(?P<background>\w+)">
<header style="background:(?P<header>\w+)">(?P<site>[^<]+)</header>
<section>
(?:<img class="(?P<image>\w+)" src="[^"]*">
)?<h1>(?P<heading>[^<]+)</h1>
(?:<button style="background:(?P<button>\w+)">[^<]+</button>
)?</section>
(?:<main>(?P<main>.*)</main>
)?(?:<footer style="background:(?P<footer>\w+)">Contact</footer>
)?</body></html>''',
    re.DOTALL,
)


def fixed_texts() -> list[str]:
    """Return the stretches of HTML that are the same on all pages, or on all of a site, longest first."""
    texts = [
        f'{OPENING}<body style="background:', '">\n<header style="background:', "<h1>", "</h1>\n", "</section>\n",
        "<main>\n", "</main>\n", '<button style="background:', '<p style="background:', '<footer style="background:',
        '">Contact</footer>\n', "</body></html>",
    ]  # fmt: skip
    texts += [f'<img class="{image}" src="{IMAGE_SOURCE}">\n' for image in IMAGES if image != "none"]
    for site in BY_NAME.values():
        texts.append(f'">{site.name}</header>\n<section>\n')
        texts += [f'">{label}</button>\n' if label == site.button else f'">{label}</p>\n'
                  for label in (site.button, *site.boxes)]  # fmt: skip
    return sorted(set(texts), key=lambda text: (-len(text), text))
