"""Open the picture of a page for a model that sees."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from sweet_rl.runs.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image


def open_picture(png: bytes) -> Image:
    """A PNG as a Pillow image in RGB. Raises UserError if it cannot be read."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png)) as image:
            return image.convert("RGB")
    except (OSError, ValueError) as error:
        raise UserError(f"a picture of a page cannot be read: {error}") from error
