"""Frontend dialogues: pages as pictures, drawn when they are first needed, each compared with the reference page.

HTML that a model wrote reaches the viewer as a picture and as source text only. The name of a picture is the hash of
its source.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER
from sweet_rl.dialogues.frontend.cosine_similarity import DECIMALS, cosine
from sweet_rl.dialogues.frontend.encoders import ImageEncoder
from sweet_rl.dialogues.frontend.extract_page import answered_page, extract_page
from sweet_rl.rendering.renderer import PageRenderer, Rendered
from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.candidates import Ranked
from sweet_rl.viewer.entries import Dialogues, Entry

SERVED_BYTES = 200_000_000  # of pictures that the server keeps
SOURCES = 20_000  # pages whose source the server keeps


class Pictures:
    """Draws pages, compares them, and keeps the pictures. Safe to use from several threads.

    Args:
        renderer: Renderer that draws the pages.
        encoder: Encoder of the pictures for the similarity; None gives no similarity.
        kept_bytes: Approximate bytes of pictures that are kept; the least recently used go first. None keeps all, as a
            page in a file needs.
    """

    def __init__(
        self, renderer: PageRenderer, encoder: ImageEncoder | None = None, kept_bytes: int | None = None
    ) -> None:
        self.renderer, self.encoder, self.kept_bytes = renderer, encoder, kept_bytes
        self._drawn: OrderedDict[str, Rendered] = OrderedDict()
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()
        self._sources: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()
        self._encoding = threading.Lock()

    def name(self, html: str) -> str:
        """The name of a page's picture; this does not draw it."""
        name = hashlib.sha256(html.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        with self._lock:
            self._sources[name] = html
            self._sources.move_to_end(name)
            while self.kept_bytes is not None and len(self._sources) > SOURCES:
                self._sources.popitem(last=False)
        return name

    def view(self, html: str) -> dict:
        """A page's picture: {name, width, height}, or {failure: reason} if there is none."""
        name = self.name(html)
        drawn = self._draw(name)
        if drawn.png is None:
            failure = drawn.failure or {}
            return {"failure": f"{failure.get('kind', 'failed')}: {failure.get('message', '')}"}
        return {"name": name, "width": drawn.width, "height": drawn.height}

    def similarity(self, html: str, reference: str) -> float | None:
        """The cosine of the two pages' embeddings; None without an encoder or without a picture."""
        own, other = (self._vector(self.name(page)) for page in (html, reference))
        if own is None or other is None:
            return None
        return round(cosine(own, other), DECIMALS)

    def get(self, name: str) -> bytes | None:
        """The PNG of a name returned by `name`; None for any other name and for a page that could not be drawn."""
        with self._lock:
            if name not in self._drawn and name not in self._sources:
                return None
        return self._draw(name).png

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Name and PNG of every page that was named and can be drawn."""
        for name in list(self._sources):
            png = self._draw(name).png
            if png is not None:
                yield name, png

    def _draw(self, name: str) -> Rendered:
        with self._lock:
            if name in self._drawn:
                self._drawn.move_to_end(name)
                return self._drawn[name]
            html = self._sources[name]
        drawn = self.renderer.render(html)
        with self._lock:
            if name not in self._drawn:
                self._drawn[name] = drawn
                self._bytes += len(drawn.png or b"")
            while self.kept_bytes is not None and self._bytes > self.kept_bytes and len(self._drawn) > 1:
                self._bytes -= len(self._drawn.popitem(last=False)[1].png or b"")
        return drawn

    def _vector(self, name: str) -> np.ndarray | None:
        if self.encoder is None:
            return None
        png = self._draw(name).png
        if png is None:
            return None
        with self._encoding:
            if name not in self._vectors:
                self._vectors[name] = self.encoder.embed([png])[0]
                while len(self._vectors) > SOURCES:
                    self._vectors.popitem(last=False)
            return self._vectors[name]


class Designs(Dialogues):
    """A file of frontend trajectories with the pictures of their pages."""

    kind = "designs"

    def __init__(
        self, path: str, pictures: Pictures, limit: int | None = None, credit: Any = None, ranked: Ranked | None = None
    ) -> None:
        super().__init__(path, limit, credit, ranked)
        self.pictures = pictures

    def scan(self) -> Iterator[Entry]:
        """Raises UserError if the first reference solution is no HTML page."""
        for number, entry in enumerate(super().scan()):
            if number == 0 and answered_page(self.trajectory(0).task.ground_truth) is None:
                raise UserError(
                    f"{self.path}: the reference of its first dialogue is no HTML page. Dialogues about code are "
                    "shown by visualize_dialogue_histories.py."
                )
            yield entry

    def view(self, number: int) -> dict:
        """The dialogue, with `pictures`: {reference, turns: [{turn, name, width, height, failure, similarity}]}.

        A message or candidate with a page has the page's source in `page` and its picture in `picture`.
        """
        view = super().view(number)
        reference = self.trajectory(number).task.ground_truth
        turns = []
        for message in view["messages"]:
            if "turn" not in message:
                continue
            for candidate in message.get("candidates", ()):
                if page := shown_page(candidate["text"]):
                    candidate["page"], candidate["picture"] = page, {"name": self.pictures.name(page)}
            page = shown_page(message["text"])
            if page is None:
                continue
            picture = self.pictures.view(page)
            similarity = self.pictures.similarity(page, reference)
            if similarity is not None:
                picture["similarity"] = similarity
            message["page"], message["picture"] = page, picture
            turns.append({"turn": message["turn"], **picture})
        view["pictures"] = {"reference": self.pictures.view(reference), "turns": turns}
        return view


def shown_page(text: str) -> str | None:
    """The page in a message: a complete page or, in an answer, also one that is cut off; None without a page."""
    page = extract_page(text)
    if page is not None:
        return page
    _, marker, answer = text.partition(ANSWER_MARKER)
    return answered_page(answer) if marker else None
