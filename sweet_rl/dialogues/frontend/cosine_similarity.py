"""The frontend grader: how similar the agent's page and the reference page look (the paper, ColBench, Frontend Design).

The reward is the cosine similarity of the image embeddings of the two full-page screenshots. An answer that gives no
picture has no similarity: its reward is 0, with the kind of the failure. By the released rules, for comparison with its
figures only, it counts as a black square, which is a little like every page.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from sweet_rl.dialogues.frontend.embedding_cache import Embedding, EmbeddingCache, embedding_key
from sweet_rl.dialogues.frontend.encoders import ImageEncoder
from sweet_rl.dialogues.frontend.extract_page import answered_page
from sweet_rl.dialogues.protocols import MAX_ANSWER_CHARS, Grade
from sweet_rl.runs.records import Task

if TYPE_CHECKING:
    from sweet_rl.rendering.renderer import PageRenderer, Rendered

BATCH = 16  # answers that are drawn and embedded together
BLACK_SIDE = 224  # pixels of the black square of the released rules
DECIMALS = 6  # of a similarity; float32 embeddings are not more precise


class PageGrader(AbstractContextManager):
    """The `Grader` of the frontend domain.

    Evidence of a grade: `similarity` (cosine of the two embeddings, None without two pictures), `encoder` (name of
    the encoder), and without a picture `message` (why) and `side` ("answer" or "reference": whose page it was). By the
    released rules also `rules` ("paper").

    Args:
        renderer: Renderer of the pages.
        encoder: Encoder of their pictures.
        cache: Embeddings of reference pages; by default they are kept in memory.
        paper_grader: Whether an answer without a picture is graded as a black square, as in the release.
    """

    def __init__(
        self,
        renderer: PageRenderer,
        encoder: ImageEncoder,
        cache: EmbeddingCache | None = None,
        paper_grader: bool = False,
    ) -> None:
        self.renderer, self.encoder, self.paper_grader = renderer, encoder, paper_grader
        self.cache = EmbeddingCache() if cache is None else cache

    def describe(self) -> str:
        """One line for people: which encoder compares the pages, and which browser draws them."""
        rules = "; an answer without a picture is a black square, by the release's rules" if self.paper_grader else ""
        return f"{self.encoder.describe}; pages drawn by {self.renderer.browser}{rules}"

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
        most 1. If the answer gives no picture it is 0, or that of a black square (`paper_grader`). A reference page
        without a picture makes the grade `ungradable`.
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
                yield self._failed(drawn[task.ground_truth])
            elif own is None:
                yield self._without_picture(reference, *_no_page(answer))
            elif own not in embeddings:
                yield self._failed(drawn[own], reference)
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

    def _failed(self, drawn: Rendered, reference: Embedding | None = None) -> Grade:
        """The grade if no picture was drawn of the answer, or without a `reference` of the reference page."""
        failure = drawn.failure or {}
        kind, message = failure["kind"], failure["message"]
        if reference is not None and kind != "machine":
            return self._without_picture(reference, kind, message)
        side = "reference" if reference is None else "answer"
        evidence = self._evidence(None) | {"message": message, "side": side}
        if kind == "machine":
            return Grade(None, machine=message, evidence=evidence)
        return Grade(None, ungradable=kind, evidence=evidence)

    def _without_picture(self, reference: Embedding, kind: str, message: str) -> Grade:
        similarity = None
        if self.paper_grader:
            similarity = round(cosine(reference.vector, self._black_square), DECIMALS)
        evidence = self._evidence(similarity) | {"message": message, "side": "answer"}
        return Grade(min(1.0, max(0.0, similarity or 0.0)), failure=kind, evidence=evidence)

    @cached_property
    def _black_square(self) -> np.ndarray:
        from PIL import Image

        png = io.BytesIO()
        Image.new("RGB", (BLACK_SIDE, BLACK_SIDE)).save(png, "PNG")
        return self.encoder.embed([png.getvalue()])[0]

    def _evidence(self, similarity: float | None) -> dict:
        evidence = {"similarity": similarity, "encoder": self.encoder.name}
        return evidence | {"rules": "paper"} if self.paper_grader else evidence


def _no_page(answer: str | None) -> tuple[str, str]:
    """Why an answer holds no page: kind and message."""
    if answer is None or not answer.strip():
        return "no answer", "the agent gave no answer"
    if _is_too_long(answer):
        return "too long", f"the answer has {len(answer):,} characters"
    return "no page", "the answer holds no HTML page"


def _is_too_long(answer: str | None) -> bool:
    return answer is not None and len(answer) > MAX_ANSWER_CHARS


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of two vectors [d], computed in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
