"""The pictures of the reference pages that the paper's frontend critic sees: which, where they are kept, how drawn.

Nothing here imports torch, so that a script's --help is quick.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat

from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.progress import progress_bar

SMALLEST_PICTURE = 28 * 28  # pixels of one visual token


@dataclass(frozen=True)
class PictureSettings(BrowserSettings):
    """The picture of the reference page that the paper's frontend critic sees.

    Attributes:
        reference_picture: Train the frontend critic, a vision-language model that sees a picture of the reference
            page. The dataset is then graded frontend trajectories (evaluate_html.py).
        min_gap: Smallest difference between the rewards of two siblings that make a pair of pages.
        max_pixels: Number of pixels to which larger pictures are shrunk; by default as the model's processor does.
    """

    reference_picture: bool = False
    min_gap: PositiveFloat = 0.1
    max_pixels: Annotated[int, Field(ge=SMALLEST_PICTURE)] | None = None


def pictures_folder(settings: PictureSettings, dataset: str) -> Path:
    """Where the pictures of the reference pages are kept: DATASET.pages, with one folder per size of the window."""
    return Path(f"{dataset}.pages") / f"{settings.page_width}x{settings.page_height}"


def picture_file(folder: Path, page: str) -> Path:
    """The file of a page's picture, named by the page's content."""
    return folder / f"{hashlib.sha256(page.encode('utf-8', 'surrogatepass')).hexdigest()}.png"


def draw_pages(pages: Iterable[str], folder: Path, settings: PictureSettings) -> None:
    """Write the PNG of each page that can be drawn to `folder`; existing files are kept.

    Raises UserError if a browser is needed and there is none.
    """
    missing = [page for page in dict.fromkeys(pages) if not picture_file(folder, page).exists()]
    if not missing:
        return
    from sweet_rl.rendering.renderer import PageRenderer

    folder.mkdir(parents=True, exist_ok=True)
    with PageRenderer.from_settings(settings, cache=0) as renderer:
        drawn = renderer.render_all(missing)
        pairs = zip(missing, drawn, strict=True)
        for page, rendered in progress_bar(pairs, total=len(missing), desc="reference pages"):
            if rendered.png is not None:
                partial = picture_file(folder, page).with_suffix(".partial")
                partial.write_bytes(rendered.png)
                partial.replace(picture_file(folder, page))
