"""The flags that say how pages are drawn."""

from dataclasses import dataclass
from typing import Annotated, Any

from sweet_rl.runs.cli import UNRECORDED


@dataclass(frozen=True)
class BrowserSettings:
    """How pages are drawn.

    Attributes:
        browser_workers: Number of browsers.
        page_width: Width of the browser's window, in pixels. Use one window in all steps.
        page_height: Height of that window, in pixels; a longer page makes a longer picture.
        page_timeout: Seconds that drawing one page may take.
    """

    browser_workers: Annotated[int, UNRECORDED] = 2
    page_width: int = 1280
    page_height: int = 720
    page_timeout: Annotated[float, UNRECORDED] = 15.0

    def window(self) -> dict[str, Any]:
        """What the picture of a page depends on. `browser` is a key of stored dialogues' identities."""
        return {"browser": None, "page_width": self.page_width, "page_height": self.page_height}
