"""What a drawing of a page gives: a picture or a failure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rendered:
    """A page's picture, or why there is none.

    Attributes:
        png: The picture; None exactly if `failure` is given.
        width: Width of the picture in pixels (0 without one).
        height: Height of the picture in pixels (0 without one).
        failure: {"kind": "empty", "too_large", "timeout", "crashed", "left" or "machine", "message": what happened}.
            A failure of kind "machine" says nothing about the page; drawing it again may work.
    """

    png: bytes | None
    width: int
    height: int
    failure: dict | None


class DrawingFailed(Exception):
    """A page gave no picture. `kind` is that of `Rendered.failure`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
