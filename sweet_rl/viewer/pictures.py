"""Pages as pictures, drawn when they are first needed, each with how alike it is to another.

A page that a model wrote reaches the viewer as a picture only. Its name is the hash of its source.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from sweet_rl.rendering.renderer import PageRenderer, Rendered
from sweet_rl.rewards.encoders import ImageEncoder
from sweet_rl.rewards.html import cosine

SERVED_BYTES = 200_000_000
SOURCES = 20_000


class Pictures:
    """Draws pages with `renderer`, compares them with `encoder` (None: not at all), keeps what it has drawn.

    kept_bytes: about how much is kept, the longest unused pictures going first; None keeps all, as a file needs.
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
        """The name under which a page's picture can be had; it is not drawn yet."""
        name = hashlib.sha256(html.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        with self._lock:
            self._sources[name] = html
            self._sources.move_to_end(name)
            while self.kept_bytes is not None and len(self._sources) > SOURCES:
                self._sources.popitem(last=False)
        return name

    def view(self, html: str) -> dict:
        """A page's picture: {name, width, height}, or {failure: why there is none}."""
        name = self.name(html)
        drawn = self._draw(name)
        if drawn.png is None:
            failure = drawn.failure or {}
            return {"failure": f"{failure.get('kind', 'failed')}: {failure.get('message', '')}"}
        return {"name": name, "width": drawn.width, "height": drawn.height}

    def similarity(self, html: str, reference: str) -> float | None:
        """The cosine of the two pages' embeddings; None without an encoder or without a picture."""
        vectors = [self._vector(self.name(page)) for page in (html, reference)]
        if any(vector is None for vector in vectors):
            return None
        return round(cosine(*vectors), 6)

    def get(self, name: str) -> bytes | None:
        """The PNG of a name that was given out; None for any other, and for a page that could not be drawn."""
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
        png = None if self.encoder is None else self._draw(name).png
        if png is None:
            return None
        with self._encoding:
            if name not in self._vectors:
                self._vectors[name] = self.encoder.embed([png])[0]
                while len(self._vectors) > SOURCES:
                    self._vectors.popitem(last=False)
            return self._vectors[name]
