"""Pages of frontend dialogues as pictures: HTML that a model wrote reaches the viewer as a picture and as text only."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import numpy as np

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER
from sweet_rl.dialogues.frontend.cosine_similarity import cosine
from sweet_rl.dialogues.frontend.encoders import ImageEncoder
from sweet_rl.dialogues.frontend.extract_page import answered_page, extract_page
from sweet_rl.rendering.renderer import PageRenderer, Rendered
from sweet_rl.runs.records import Trajectory


class Pictures:
    """Draws pages, each once, and compares their pictures.

    Args:
        renderer: Renderer that draws the pages.
        encoder: Encoder of the pictures for the similarity; None gives no similarity.
    """

    def __init__(self, renderer: PageRenderer, encoder: ImageEncoder | None = None) -> None:
        self.renderer, self.encoder = renderer, encoder
        self._rendered: dict[str, Rendered] = {}
        self._vectors: dict[str, np.ndarray] = {}

    def draw(self, trajectories: Iterable[Trajectory]) -> None:
        """Draw the reference pages and the pages of all turns, with all browsers of the renderer."""
        pages: dict[str, None] = {}
        for trajectory in trajectories:
            texts = [row["content"] for row in trajectory.dialogue_history if row["role"] == "assistant"]
            pages |= dict.fromkeys([trajectory.task.ground_truth, *filter(None, map(shown_page, texts))])
        self._rendered = dict(zip(pages, self.renderer.render_all(pages), strict=True))

    def __getitem__(self, page: str) -> dict:
        """The picture {src, width}, or {failure} if the page could not be drawn."""
        rendered = self._rendered[page]
        if rendered.png is None:
            return {"failure": (rendered.failure or {}).get("message", "not drawn")}
        return {"src": data_url(rendered.png), "width": rendered.width}

    def similarity(self, page: str, reference: str) -> float | None:
        """The cosine of the embeddings of two pages; None without an encoder or without a picture."""
        vectors = [self._vector(page), self._vector(reference)]
        return None if vectors[0] is None or vectors[1] is None else cosine(vectors[0], vectors[1])

    def _vector(self, page: str) -> np.ndarray | None:
        png = self._rendered[page].png
        if self.encoder is None or png is None:
            return None
        if page not in self._vectors:
            self._vectors[page] = self.encoder.embed([png])[0]
        return self._vectors[page]


def shown_page(text: str) -> str | None:
    """The page in a message: a complete page or, in an answer, also one that is cut off; None without a page."""
    page = extract_page(text)
    if page is not None:
        return page
    _, marker, answer = text.partition(ANSWER_MARKER)
    return answered_page(answer) if marker else None


def data_url(data: bytes, kind: str = "image/png") -> str:
    """A picture as an address that needs no file."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
