"""The frontend grader: how similar the agent's page and the reference page look (the paper, ColBench, Frontend Design).

The reward is the cosine similarity of the image embeddings of the two full-page screenshots. An answer that gives no
picture has no similarity: its reward is 0, with the kind of the failure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from sweet_rl.dialogues.frontend.embedding_cache import Embedding, EmbeddingCache, embedding_key
from sweet_rl.dialogues.frontend.encoders import ImageEncoder
from sweet_rl.dialogues.frontend.extract_page import answered_page
from sweet_rl.dialogues.protocols import MAX_ANSWER_CHARS, Grade
from sweet_rl.runs.records import Task

if TYPE_CHECKING:
    from sweet_rl.isolation.rendering.renderer import PageRenderer, Rendered

BATCH = 16  # answers that are drawn and embedded together
DECIMALS = 6  # of a similarity; float32 embeddings are not more precise


class PageGrader(AbstractContextManager):
    """The `Grader` of the frontend domain: one renderer, one encoder, and the embeddings of reference pages in `cache`.

    Evidence of a grade: `similarity` (cosine of the two embeddings, None without two pictures), `encoder` (name of
    the encoder), and without a similarity `message` (why) and `side` ("answer" or "reference": whose page it was).
    """

    def __init__(self, renderer: PageRenderer, encoder: ImageEncoder, cache: EmbeddingCache | None = None) -> None:
        self.renderer, self.encoder = renderer, encoder
        self.cache = EmbeddingCache() if cache is None else cache

    def describe(self) -> str:
        """One line for people: which encoder compares the pages, and which browser draws them."""
        return f"{self.encoder.describe}; pages drawn by {self.renderer.browser}"

    def to_settings(self) -> dict[str, str]:
        """The settings that were found on this machine, for the manifest of a run."""
        return {"image_encoder": self.encoder.name, "browser": self.renderer.browser}

    def grade(self, task: Task, answer: str | None) -> Grade:
        """The grade of one answer."""
        (grade,) = self.grade_many([(task, answer)])
        return grade

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order.

        An answer is the agent's text; None if the dialogue has none. The reward is the similarity, at least 0 and at
        most 1; 0 if the answer gives no picture. A reference page without a picture makes the grade `ungradable`.
        """
        waiting = iter(jobs)
        while batch := list(islice(waiting, BATCH)):
            yield from self._grade_batch(batch)

    def close(self) -> None:
        """End the browsers."""
        self.renderer.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _grade_batch(self, batch: list[tuple[Task, str | None]]) -> Iterator[Grade]:
        pages = [None if _is_too_long(answer) else answered_page(answer) for _, answer in batch]
        keys = {task.ground_truth: self._key(task.ground_truth) for task, _ in batch}
        references = {page: known for page, key in keys.items() if (known := self.cache.get(key)) is not None}
        missing = [page for page in keys if page not in references]
        drawn = self._draw([*missing, *(page for page in pages if page is not None)])
        embeddings = self._embed(drawn)
        for page in missing:
            if page in embeddings:
                references[page] = embeddings[page]
                self.cache.put(keys[page], embeddings[page])
        for (task, answer), own in zip(batch, pages, strict=True):
            reference = references.get(task.ground_truth)
            if reference is None:
                yield self._failed(drawn[task.ground_truth], "reference")
            elif own is None:
                yield self._without_page(answer)
            elif own not in embeddings:
                yield self._failed(drawn[own], "answer")
            else:
                yield self._compared(reference, embeddings[own])

    def _key(self, page: str) -> str:
        return embedding_key(self.encoder.name, self.renderer.fingerprint, page)

    def _draw(self, pages: list[str]) -> dict[str, Rendered]:
        distinct = list(dict.fromkeys(pages))
        return dict(zip(distinct, self.renderer.render_all(distinct), strict=True))

    def _embed(self, drawn: dict[str, Rendered]) -> dict[str, Embedding]:
        """The embedding of every page that gave a picture; equal pictures are embedded once."""
        pngs = {page: one.png for page, one in drawn.items() if one.png is not None}
        digests = {page: hashlib.sha256(png).hexdigest() for page, png in pngs.items()}
        pictures = {digest: pngs[page] for page, digest in digests.items()}
        vectors = dict(zip(pictures, self.encoder.embed(list(pictures.values())), strict=True)) if pictures else {}
        return {page: Embedding(vectors[digest], digest) for page, digest in digests.items()}

    def _compared(self, reference: Embedding, own: Embedding) -> Grade:
        same = reference.picture == own.picture
        similarity = 1.0 if same else round(cosine(reference.vector, own.vector), DECIMALS)
        return Grade(min(1.0, max(0.0, similarity)), evidence=self._evidence(similarity))

    def _failed(self, drawn: Rendered, side: str) -> Grade:
        failure = drawn.failure or {}
        kind, message = failure["kind"], failure["message"]
        evidence = self._evidence(None) | {"message": message, "side": side}
        if kind == "machine":
            return Grade(None, machine=message, evidence=evidence)
        if side == "reference":
            return Grade(None, ungradable=kind, evidence=evidence)
        return Grade(0.0, failure=kind, evidence=evidence)

    def _without_page(self, answer: str | None) -> Grade:
        kind, message = "no page", "the answer holds no HTML page"
        if answer is None or not answer.strip():
            kind, message = "no answer", "the agent gave no answer"
        elif _is_too_long(answer):
            kind, message = "too long", f"the answer has {len(answer):,} characters"
        return Grade(0.0, failure=kind, evidence=self._evidence(None) | {"message": message, "side": "answer"})

    def _evidence(self, similarity: float | None) -> dict:
        return {"similarity": similarity, "encoder": self.encoder.name}


def _is_too_long(answer: str | None) -> bool:
    return answer is not None and len(answer) > MAX_ANSWER_CHARS


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of two vectors [d], computed in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
