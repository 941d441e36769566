"""Embeddings of reference pages, kept by content: in memory, and on disk if a folder is given."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweet_rl.runs.errors import UserError

IN_MEMORY = 5_000  # embeddings; the longest unused ones are dropped from memory first


@dataclass(frozen=True)
class Embedding:
    """The embedding of one picture.

    Attributes:
        vector: Vector [d] float32 of length 1.
        picture: Hash (SHA-256) of the PNG.
    """

    vector: np.ndarray
    picture: str


def embedding_key(encoder: str, renderer: str, page: str) -> str:
    """64 hex digits of all that an embedding depends on.

    Args:
        encoder: Name of the encoder.
        renderer: `PageRenderer.fingerprint`, which says how pages are drawn.
        page: HTML of the page.
    """
    content = json.dumps([encoder, renderer, page])
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


class EmbeddingCache:
    """Embeddings by key (`embedding_key`).

    Args:
        folder: Folder in which they are kept; None keeps them in memory only.

    Several processes may share a folder: files appear whole. A file that cannot be read counts as missing.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._kept: OrderedDict[str, Embedding] = OrderedDict()
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"the embedding cache {folder} cannot be used: {error.strerror}. Choose another folder."
                ) from error

    def get(self, key: str) -> Embedding | None:
        """The embedding of a key; None if it is not kept."""
        if key not in self._kept and self.folder is not None:
            found = _read(_path(self.folder, key))
            if found is not None:
                self._keep(key, found)
        return self._kept.get(key)

    def put(self, key: str, embedding: Embedding) -> None:
        """Keep an embedding."""
        self._keep(key, embedding)
        if self.folder is None:
            return
        path = _path(self.folder, key)
        path.parent.mkdir(exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        with os.fdopen(handle, "wb") as file:
            np.savez(file, vector=embedding.vector, picture=np.array(embedding.picture))
        os.replace(partial, path)

    def _keep(self, key: str, embedding: Embedding) -> None:
        self._kept[key] = embedding
        self._kept.move_to_end(key)
        if len(self._kept) > IN_MEMORY:
            self._kept.popitem(last=False)


def _path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.npz"


def _read(path: Path) -> Embedding | None:
    try:
        with np.load(path, allow_pickle=False) as stored:
            vector, picture = stored["vector"], stored["picture"]
    except (OSError, ValueError, KeyError, EOFError, MemoryError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return None
    whole = isinstance(vector, np.ndarray) and vector.dtype.kind == "f" and vector.ndim == 1 and vector.size
    return Embedding(vector, str(picture)) if whole and np.isfinite(vector).all() else None
