"""What the renderer and the browsers share: the settings of a drawing, its result, and its failure."""

from dataclasses import dataclass

MAX_CHARACTERS = 4_000_000  # of a page's HTML


@dataclass(frozen=True)
class Settings:
    """How pages are drawn: viewport `width` and `height`, and the picture's `max_height` (all in CSS pixels)."""

    width: int
    height: int
    max_height: int
    javascript: bool


@dataclass(frozen=True)
class Rendered:
    """A page's picture, or why there is none.

    Attributes:
        png: The picture; None exactly if `failure` is given.
        width: Width of the picture in pixels (0 without one).
        height: Height of the picture in pixels (0 without one).
        failure: {"kind": "empty", "too_large", "timeout", "crashed", "memory", "moving" or "machine", "message": what
            happened}.
            A failure of kind "machine" says nothing about the page; drawing it again may work.
        layout: The browser's own layout (the result of DOMSnapshot.captureSnapshot), if it was asked for.
    """

    png: bytes | None
    width: int
    height: int
    failure: dict | None
    layout: dict | None


class DrawingFailed(Exception):
    """A page gave no picture.

    Attributes:
        kind: "empty", "too_large", "timeout", "crashed" or "memory".
        message: What happened.
        by_page: Whether the page itself is certainly the cause. If not, it may be the machine.
    """

    def __init__(self, kind: str, message: str, by_page: bool = False) -> None:
        super().__init__(message)
        self.kind, self.message, self.by_page = kind, message, by_page
