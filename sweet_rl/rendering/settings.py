"""What a drawing is asked to be, and what it gives."""

from dataclasses import dataclass

MAX_MEMORY = 3 << 30  # bytes of one browser with all its processes, an ordinary page takes 0.5 GB
MAX_CHARACTERS = 4_000_000  # of a page's HTML


@dataclass(frozen=True)
class Settings:
    """How pages are drawn: viewport `width` and `height`, picture at most `max_height` (CSS pixels)."""

    width: int
    height: int
    max_height: int
    javascript: bool


@dataclass(frozen=True)
class Drawing:
    """A drawn page: PNG bytes, its size in pixels, and its boxes where they were asked for."""

    png: bytes
    width: int
    height: int
    boxes: list[dict] | None
