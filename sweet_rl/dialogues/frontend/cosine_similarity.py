"""The frontend grader: how similar the agent's page and the reference page look (the paper, ColBench, Frontend Design).

The reward is the cosine similarity of the image embeddings of the two full-page screenshots. An answer that gives no
picture has no similarity: its reward is 0, with the kind of the failure. By the released rules, for comparison with its
figures only, it counts as a black square, which is a little like every page.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sweet_rl.dialogues.domain import Grade, Grader
from sweet_rl.dialogues.fences import MAX_ANSWER_CHARS
from sweet_rl.dialogues.frontend.encoders import ImageEncoder
from sweet_rl.dialogues.frontend.extract_page import answered_page
from sweet_rl.runs.records import Task

if TYPE_CHECKING:
    from sweet_rl.rendering.renderer import PageRenderer, Rendered

BATCH = 16  # answers that are drawn and embedded together
BLACK_SIDE = 224  # pixels of the black square of the released rules
DECIMALS = 6  # of a similarity; float32 embeddings are not more precise


class Picture(NamedTuple):
    """The picture of a page, as PNG, and its embedding [d] float32 of length 1."""

    png: bytes
    vector: np.ndarray


class PageGrader(Grader):
    """The `Grader` of the frontend domain.

    Evidence of a grade: `similarity` (cosine of the two embeddings, None without two pictures), `encoder` (name of
    the encoder), and without a picture `message` (why) and `side` ("answer" or "reference": whose page it was). By the
    released rules also `rules` ("paper").

    Args:
        renderer: Renderer of the pages.
        encoder: Encoder of their pictures.
        paper_grader: Whether an answer without a picture is graded as a black square, as in the release.
    """

    def __init__(self, renderer: PageRenderer, encoder: ImageEncoder, paper_grader: bool = False) -> None:
        self.renderer, self.encoder, self.paper_grader = renderer, encoder, paper_grader
        self._references: dict[str, Picture] = {}

    def describe(self) -> str:
        """One line for people: which encoder compares the pages, and which browser draws them."""
        rules = "; an answer without a picture is a black square, by the release's rules" if self.paper_grader else ""
        return f"{self.encoder.describe}; pages drawn by {self.renderer.browser}{rules}"

    def to_settings(self) -> dict[str, str]:
        """The settings that were found on this machine, for the manifest of a run."""
        return {"image_encoder": self.encoder.name, "browser": self.renderer.browser}

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order.

        An answer is the agent's text; None if the dialogue has none. The reward is the similarity, at least 0 and at
        most 1. If the answer gives no picture it is 0, or that of a black square (`paper_grader`). A reference page
        without a picture makes the grade `ungradable`.
        """
        waiting = iter(jobs)
        while batch := list(islice(waiting, BATCH)):
            pages = [answered_page(answer) if len(answer or "") <= MAX_ANSWER_CHARS else None for _, answer in batch]
            references = {task.ground_truth for task, _ in batch} - self._references.keys()
            wanted = list(dict.fromkeys([*sorted(references), *(page for page in pages if page is not None)]))
            drawn = dict(zip(wanted, self.renderer.render_all(wanted), strict=True))
            vectors = iter(self.encoder.embed([one.png for one in drawn.values() if one.png is not None]))
            pictures = {page: Picture(one.png, next(vectors)) for page, one in drawn.items() if one.png is not None}
            self._references |= {page: pictures[page] for page in references if page in pictures}
            for (task, answer), page in zip(batch, pages, strict=True):
                reference = self._references.get(task.ground_truth)
                if reference is None:
                    yield self._not_drawn(drawn[task.ground_truth], "reference")
                elif page in pictures:
                    yield self._compared(reference, pictures[page])
                elif page is None:
                    yield self._without_picture(reference, *_no_page(answer))
                elif (failure := drawn[page].failure or {})["kind"] == "machine":
                    yield self._not_drawn(drawn[page], "answer")
                else:
                    yield self._without_picture(reference, failure["kind"], failure["message"])

    def close(self) -> None:
        self.renderer.close()

    def _compared(self, reference: Picture, own: Picture) -> Grade:
        same = reference.png == own.png
        similarity = 1.0 if same else round(cosine(reference.vector, own.vector), DECIMALS)
        return Grade(min(1.0, max(0.0, similarity)), evidence=self._evidence(similarity))

    def _not_drawn(self, drawn: Rendered, side: str) -> Grade:
        """The grade if the machine failed, or the reference page cannot be drawn."""
        failure = drawn.failure or {}
        kind, message = failure["kind"], failure["message"]
        evidence = self._evidence(None) | {"message": message, "side": side}
        if kind == "machine":
            return Grade(None, machine=message, evidence=evidence)
        return Grade(None, ungradable=kind, evidence=evidence)

    def _without_picture(self, reference: Picture, kind: str, message: str) -> Grade:
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
    if len(answer) > MAX_ANSWER_CHARS:
        return "too long", f"the answer has {len(answer):,} characters"
    return "no page", "the answer holds no HTML page"


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of two vectors [d], computed in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
