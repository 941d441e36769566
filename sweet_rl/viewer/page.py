"""The page of a file's dialogues, candidates or pairs.

Text that a model wrote is in the file as compressed data only, and the script shows it as text nodes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sweet_rl.runs.progress import progress_bar
from sweet_rl.viewer.entries import Collection
from sweet_rl.viewer.html_file import data_block, escaped, html_file, json_block, json_text

SCRIPTS = (
    "page.js",
    "source.js",
    "code.js",
    "difference.js",
    "charts.js",
    "summary.js",
    "list.js",
    "credit.js",
    "message.js",
    "dialogue.js",
    "pictures.js",
    "views.js",
    "main.js",
)
CHUNK = 1 << 18  # characters of JSON per compressed block; opening one entry unpacks one block


def write_page(collection: Collection, pictures: Any = None) -> str:
    """The whole page of a collection as HTML. Raises UserError at the first bad line of its files."""
    rows = [row for row, _ in progress_bar(collection.scan(), desc="read", unit="entry")]
    blocks: list[str] = []
    chunks: list[int] = []
    views = (collection.view(number) for number in range(len(rows)))
    for count, text in _chunks(progress_bar(views, desc="written", total=len(rows), unit="entry")):
        blocks.append(json_block(f"chunk-{len(chunks)}", text))
        chunks.append(count)
    if pictures is not None:
        blocks += [data_block(f"picture-{name}", data) for name, data in pictures.all()]
    index = {
        "kind": collection.kind,
        "title": collection.title,
        "rows": rows,
        "chunks": chunks,
        "summary": collection.summary(),
    }
    return shell(collection.title, "".join([json_block("index", json_text(index)), *blocks]), served=False)


def shell(title: str, data: str, served: bool) -> str:
    """The HTML page around the blocks of `data`. A `served` page may send requests to its own server."""
    mode = "served" if served else "file"
    return html_file("viewer.html", ["viewer.css"], SCRIPTS, served, mode=mode, title=escaped(title), data=data)


def _chunks(views: Iterable[dict]) -> Iterator[tuple[int, str]]:
    """(number of views, JSON list of them) in order; each list has about CHUNK characters."""
    texts: list[str] = []
    for view in views:
        texts.append(json_text(view))
        if sum(map(len, texts)) >= CHUNK:
            yield len(texts), f"[{','.join(texts)}]"
            texts = []
    if texts:
        yield len(texts), f"[{','.join(texts)}]"
