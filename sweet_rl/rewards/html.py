"""Grade pages: how alike the agent's page and the reference page look (PAPER, ColBench, Frontend Design).

The reward is the cosine similarity of the image embeddings of the two full-page screenshots. A page that gives no
picture has no similarity: it is a failure with its reason and reward 0.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from sweet_rl.rewards.embedding_cache import Embedding, EmbeddingCache, embedding_key
from sweet_rl.rewards.encoders import ImageEncoder, load_encoder

if TYPE_CHECKING:
    from sweet_rl.rendering.renderer import PageRenderer, Rendered

__all__ = ["ImageEncoder", "PageGrade", "PageGrader", "answered_page", "extract_page", "load_encoder"]

JOBS_AT_ONCE = 16
DECIMALS = 6  # what float32 embeddings keep, whatever they were computed with
_HTML_TAG = re.compile(r"<html\b[^>]*>|</html\s*>", re.IGNORECASE)
_DOCTYPE_BEFORE = re.compile(r"<!doctype html\b[^>]*>\s*$", re.IGNORECASE)
_OPENING = re.compile(r"<!doctype html\b|<html\b|<head\b|<body\b", re.IGNORECASE)
_ELEMENT = re.compile(r"<(?:body|head|div|main|header|section|nav|footer|form|table|h[1-6]|p|style)\b", re.IGNORECASE)
_FENCED = re.compile(r"^[ \t]*```[ \t]*(\w*)[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


def extract_page(text: str) -> str | None:
    """The last complete page in a message: `<html>` to its `</html>`, with the doctype before it; else the last closed
    fence that holds page elements; None if there is neither."""
    pages = _whole_pages(text)
    if pages:
        start, end = pages[-1]
        return text[start:end]
    fenced = [body for name, body in _FENCED.findall(text) if name.lower() in ("", "html") and _ELEMENT.search(body)]
    return fenced[-1].strip() if fenced else None


def answered_page(answer: str | None) -> str | None:
    """The page of an answer, which is all the agent has to give: a complete one, else what a browser can make of a
    page that a token limit cut, or of elements without `<html>` around them; None if there is nothing to draw."""
    if answer is None:
        return None
    page = extract_page(answer)
    if page is not None:
        return page
    opening = _OPENING.search(answer)
    if opening:
        return answer[opening.start() :].partition("\n```")[0].strip()
    bare = answer.strip()
    return bare if bare.startswith("<") and _ELEMENT.match(bare) else None


def without_pages(text: str, mark: str) -> str:
    """The text with `mark` in place of each page in it, a page that was cut included."""
    kept, end = [], 0
    for start, stop in _whole_pages(text):
        kept += [text[end:start], mark]
        end = stop
    rest = text[end:]
    cut = _OPENING.search(rest)
    kept += [rest[: cut.start()], mark] if cut else [rest]
    return re.sub(rf"```\w*\s*({re.escape(mark)})\s*(?:```|$)", r"\1", "".join(kept)).strip()


def _whole_pages(text: str) -> list[tuple[int, int]]:
    """Start and end of the outermost pages, in order; where an earlier one was never closed, the last that is."""
    pages, start, depth, opened = [], 0, 0, 0
    for tag in _HTML_TAG.finditer(text):
        if not tag.group().startswith("</"):
            start = tag.start() if depth == 0 else start
            opened = tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                pages.append((_with_doctype(text, start), tag.end()))
    if depth:
        closing = (tag.end() for tag in _HTML_TAG.finditer(text, opened) if tag.group().startswith("</"))
        pages += [(_with_doctype(text, opened), end) for end in closing][:1]
    return pages


def _with_doctype(text: str, start: int) -> int:
    """Where the doctype before a page begins, or the page."""
    doctype = _DOCTYPE_BEFORE.search(text, 0, start)
    return doctype.start() if doctype else start


@dataclass(frozen=True)
class PageGrade:
    """What an answer is worth.

    reward: the similarity, at least 0 and at most 1; 0 where the answer gave no picture; None where the reference
    itself gave none, so that nothing can be told.
    similarity: cosine of the two embeddings, None without two pictures. encoder: name of what made the embeddings.
    failure: {kind, message, side}, side being "answer" or "reference". Kinds: "no answer", "no page", and those of
    the renderer.
    """

    reward: float | None
    similarity: float | None
    failure: dict | None
    encoder: str


class PageGrader:
    """Grades pages with one renderer and one encoder; embeddings of reference pages are kept in `cache`."""

    def __init__(self, renderer: PageRenderer, encoder: ImageEncoder, cache: EmbeddingCache | None = None) -> None:
        self.renderer, self.encoder = renderer, encoder
        self.cache = EmbeddingCache() if cache is None else cache

    def grade(self, reference_html: str, answer_html: str | None) -> PageGrade:
        """Grades one answer: its text as the agent gave it; None: it gave none."""
        ((_, grade),) = self.grade_many([(None, reference_html, answer_html)])
        return grade

    def grade_many(self, jobs: Iterable[tuple]) -> Iterator[tuple]:
        """Grades (key, reference, answer) rows, some at a time; yields (key, PageGrade) in their order."""
        waiting = iter(jobs)
        while batch := list(islice(waiting, JOBS_AT_ONCE)):
            yield from self._grade_batch(batch)

    def _grade_batch(self, batch: list[tuple]) -> Iterator[tuple]:
        answers = [answered_page(answer) for _, _, answer in batch]
        keys = [embedding_key(self.encoder.name, self.renderer, reference) for _, reference, _ in batch]
        references = {key: self.cache.get(key) for key in keys}
        missing = {key: job[1] for key, job in zip(keys, batch, strict=True) if references[key] is None}
        drawn = self._draw([*missing.values(), *(page for page in answers if page is not None)])
        embeddings = self._embed(drawn)
        for key, page in missing.items():
            references[key] = embeddings.get(page)
            if references[key] is not None:
                self.cache.put(key, references[key])
        for (key, reference, answer), reference_key, page in zip(batch, keys, answers, strict=True):
            own = None if page is None else embeddings.get(page)
            if references[reference_key] is None:
                yield key, self._failed(drawn[reference].failure, "reference")
            elif own is None:
                yield key, self._failed(_no_page(answer) if page is None else drawn[page].failure, "answer")
            else:
                yield key, self._compared(references[reference_key], own)

    def _draw(self, pages: list[str]) -> dict[str, Rendered]:
        distinct = list(dict.fromkeys(pages))
        return dict(zip(distinct, self.renderer.render_all(distinct), strict=True))

    def _embed(self, drawn: dict[str, Rendered]) -> dict[str, Embedding]:
        """The embedding of every page that gave a picture; equal pictures are computed once."""
        digests = {page: hashlib.sha256(one.png).hexdigest() for page, one in drawn.items() if one.png is not None}
        pictures = {digest: drawn[page].png for page, digest in digests.items()}
        vectors = dict(zip(pictures, self.encoder.embed(list(pictures.values())), strict=True)) if pictures else {}
        return {page: Embedding(vectors[digest], digest) for page, digest in digests.items()}

    def _compared(self, reference: Embedding, own: Embedding) -> PageGrade:
        same = reference.picture == own.picture
        similarity = 1.0 if same else round(cosine(reference.vector, own.vector), DECIMALS)
        return PageGrade(min(1.0, max(0.0, similarity)), similarity, None, self.encoder.name)

    def _failed(self, failure: dict, side: str) -> PageGrade:
        reward = None if side == "reference" else 0.0
        return PageGrade(reward, None, {**failure, "side": side}, self.encoder.name)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of two vectors [d], computed in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _no_page(answer: str | None) -> dict:
    if answer is None or not answer.strip():
        return {"kind": "no answer", "message": "the agent gave no answer"}
    return {"kind": "no page", "message": "the answer holds no HTML page"}
