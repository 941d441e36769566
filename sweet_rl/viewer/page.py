"""The page: one HTML file that contains its style, script and data and loads nothing.

Text that a model wrote is in the file as compressed data only, and the script shows it as text nodes only. The
Content-Security-Policy allows one script and one style by their hashes, pictures from the page itself, and no request
(if served: requests to its own server).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from sweet_rl.progress import progress_bar
from sweet_rl.viewer.entries import Collection

ASSETS = Path(__file__).parent / "assets"
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


def write_page(collection: Collection, pictures: Any = None, progress: bool = True) -> str:
    """The whole page of a collection as HTML. Raises UserError at the first bad line of its files."""
    rows = [row for row, _ in progress_bar(collection.scan(), desc="read", unit="entry", disable=not progress)]
    blocks: list[str] = []
    chunks: list[int] = []
    drawn: set[str] = set()
    views = (collection.view(number) for number in range(len(rows)))
    shown = progress_bar(views, desc="written", total=len(rows), unit="entry", disable=not progress)
    for count, text in _chunks(shown):
        chunks.append(count)
        blocks.append(_block(f"chunk-{len(chunks) - 1}", text))
    if pictures is not None:
        for name, data in pictures.all():
            if name not in drawn:
                drawn.add(name)
                blocks.append(_data_block(f"picture-{name}", base64.b64encode(data).decode()))
    index = {
        "kind": collection.kind,
        "title": collection.title,
        "rows": rows,
        "chunks": chunks,
        "summary": collection.summary(),
    }
    return shell(collection.title, "".join([_block("index", json_text(index)), *blocks]), served=False)


def shell(title: str, data: str, served: bool) -> str:
    """The HTML page around the blocks of `data`. A `served` page may send requests to its own server."""
    style, script = _style(), _script()
    policy = [
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "img-src data: blob:" + (" 'self'" if served else ""),
        "connect-src 'self'" if served else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    page = (ASSETS / "viewer.html").read_text(encoding="utf-8")
    fills = {
        "policy": "; ".join(policy),
        "title": _plain(title),
        "mode": "served" if served else "file",
        "style": style,
        "script": script,
        "data": data,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fills[match[1]], page)


def json_text(value: Any) -> str:
    """JSON in ASCII; half of a surrogate pair stays an escape."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


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


def _block(name: str, text: str) -> str:
    return _data_block(name, base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode())


def _data_block(name: str, data: str) -> str:
    return f'<script type="application/octet-stream" id="{name}">{data}</script>\n'


@lru_cache
def _style() -> str:
    return "\n" + (ASSETS / "viewer.css").read_text(encoding="utf-8")


@lru_cache
def _script() -> str:
    files = [(ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return '\n"use strict";\n(() => {\n' + "\n".join(files) + "\n})();\n"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}"


def _plain(text: str) -> str:
    kept = "".join(c if c.isprintable() and not "\ud800" <= c <= "\udfff" else "\ufffd" for c in text)
    return kept.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
