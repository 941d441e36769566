"""How a client points at things on a page: what they call them, and where and how large they are."""

from __future__ import annotations

from sweet_rl.mini.page_elements import Element, Look
from sweet_rl.mini.page_groups import Group

COUNTS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
TAGS = {"header": "header", "nav": "navigation bar", "footer": "footer", "aside": "sidebar", "form": "form"}
NOUNS = {"picture": ("picture", "pictures"), "button": ("button", "buttons"), "field": ("input field", "input fields")}
SMALL = "a small part of the page"
SHARES = ((0.18, SMALL), (0.29, "a quarter of the page"), (0.42, "a third of the page"),
          (0.58, "half the page"), (0.71, "two thirds of the page"), (0.88, "three quarters of the page"))  # fmt: skip
MAX_QUOTE = 80


def count_word(count: int) -> str:
    return COUNTS.get(count, str(count))


def quoted(text: str) -> str:
    """A text in quotation marks; of a long one the beginning, whole words."""
    if len(text) > MAX_QUOTE:
        text = text[:MAX_QUOTE].rsplit(" ", 1)[0] + " ..."
    return '"' + text.replace('"', "'") + '"'


def width_words(element: Element, look: Look) -> str:
    """How wide something is, in parts of the page."""
    share = element.width / max(look.width, 1)
    return next((words for limit, words in SHARES if share < limit), "the whole page")


def side(element: Element, look: Look) -> str:
    """`left`, `right`, `middle`, or `whole` for what reaches from side to side."""
    if element.width > 0.88 * look.width:
        return "whole"
    place = element.center[0] / max(look.width, 1)
    return "left" if place < 0.42 else "right" if place > 0.58 else "middle"


SIDES = {"left": "on the left", "right": "on the right", "middle": "in the middle", "whole": "across the whole page"}


def height_words(element: Element, look: Look) -> str:
    """Where something stands from top to bottom."""
    place = element.center[1] / max(look.height, 1)
    return "at the top" if place < 0.25 else "at the bottom" if place > 0.75 else "halfway down"


def noun(group: Group, look: Look, text: str = "") -> str:
    """What a group is called, without an article: `header`, `picture`, `three boxes with "Bread", "Cakes"`..."""
    one = group.first
    many = group.count > 1
    if one.kind == "text":
        return "title" if _is_title(one, look) else "text"
    if one.kind in NOUNS:
        name = NOUNS[one.kind][many]
        if one.kind == "button" and one.text and not many:
            name += f" {quoted(one.text)}"
    elif one.tag in TAGS and not many:
        name = TAGS[one.tag]
    else:
        name = _area_name(one, look, many) + (f" with {quoted(text)}" if text and not many else "")
    return f"{count_word(group.count)} {name}" if many else name


def _area_name(one: Element, look: Look, many: bool) -> str:
    if many or one.width < 0.88 * look.width:
        return "boxes" if many else "box"
    low = one.height < 0.3 * look.height
    if low and one.y < 0.02 * look.height:
        return "header"
    if low and one.y + one.height > 0.98 * look.height:
        return "footer"
    return "section"


def _is_title(one: Element, look: Look) -> bool:
    """Whether a text is the largest of its page."""
    sizes = [element.font_size for element in look.of_kind("text")]
    return one.tag == "h1" or (bool(sizes) and one.font_size == max(sizes) and sizes.count(one.font_size) == 1)
