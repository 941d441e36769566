"""What moves in a page and cannot be stopped, so that the page would look different each time that it is drawn.

`scripts.SETTLE` stops the movement of the page itself. It reaches neither the SVG documents that are pictures of the
page, which have clocks of their own, nor shadow trees. Pages with such a thing are refused.
"""

import re
from xml.parsers import expat

from sweet_rl.rendering.browser import Rendered
from sweet_rl.rendering.unescaped import unescaped

_MOVES = re.compile(r"animation|transition|@import|font-display", re.IGNORECASE)
_PICTURE_INSIDE = re.compile(
    r"data:(?!image/jpe?g\b|(?:application|font)/[\w.+-]*(?:font|woff|ttf|otf))", re.IGNORECASE
)
DRAWING = "the page has an SVG picture that may move"


def refusal(what: str) -> Rendered:
    """The result for a page of which each drawing may look different, and what in it is the cause."""
    message = f"{what}, so that each drawing of it may look different"
    return Rendered(None, 0, 0, {"kind": "moving", "message": message}, None)


def has_shadow_tree(page: str) -> bool:
    """Whether HTML, or HTML inside an attribute of it, may have a shadow tree."""
    try:
        return any("shadowrootmode" in text.lower() for text in unescaped(page))
    except ValueError:
        return True


def moves(drawing: bytes, charset: str = "") -> bool:
    """Whether an SVG picture may move. Only what certainly stands still passes.

    CSS animations and transitions, HTML, pictures inside it, and fonts that may come too late (`font-display`) may
    move, and so may a document that is not read here as a browser reads it. SMIL does not: settings stop it.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(drawing, True)
    except (expat.ExpatError, ValueError, LookupError):
        return True
    return (
        charset.lower() not in ("", "utf-8", "utf8", "us-ascii") or reader.moves or _style_moves("".join(reader.styles))
    )


class _Reader:
    """Reads one SVG document: `styles` has the text of its style elements."""

    def __init__(self) -> None:
        self.moves, self.styles, self._depth = False, list[str](), 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.ProcessingInstructionHandler = self._instruction

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2].lower()
        self._depth += bool(self._depth or local == "style")
        self.moves |= local == "foreignobject" or any(map(_style_moves, attributes.values()))

    def _end(self, name: str) -> None:
        self._depth -= bool(self._depth)

    def _text(self, text: str) -> None:
        if self._depth:
            self.styles.append(text)

    def _instruction(self, target: str, content: str) -> None:
        self.moves |= target == "xml-stylesheet"


def _style_moves(text: str) -> bool:
    plain = re.sub(r"[\t\n\r]", "", text)  # which addresses leave out
    return "\\" in text or bool(_MOVES.search(text) or _PICTURE_INSIDE.search(plain))
