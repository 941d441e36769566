"""One HTML file that contains its style, script and data and loads nothing.

Its Content-Security-Policy allows one script and one style by their hashes, pictures from the page itself, and no
request (if served: requests to its own server).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parent / "assets"


def html_file(template: str, styles: Sequence[str], scripts: Sequence[str], served: bool = False, **fills: str) -> str:
    """The page of a template in `assets`.

    Args:
        template: Name of the template.
        styles: Names of the style sheets, which become one.
        scripts: Names of the scripts, which become one function.
        served: Whether the page may send requests to its own server.
        fills: HTML for the other names in double braces.
    """
    style = "\n" + "\n".join(map(_asset, styles))
    script = '\n"use strict";\n(() => {\n' + "\n".join(map(_asset, scripts)) + "\n})();\n"
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
    fills |= {"policy": "; ".join(policy), "style": style, "script": script}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fills[match[1]], _asset(template))


def json_text(value: Any) -> str:
    """JSON in ASCII; half of a surrogate pair stays an escape."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def json_block(name: str, text: str) -> str:
    """A script element that holds JSON as compressed data."""
    return data_block(name, gzip.compress(text.encode("ascii"), 6, mtime=0))


def data_block(name: str, data: bytes) -> str:
    """A script element that holds bytes in base64, which is not run."""
    return f'<script type="application/octet-stream" id="{name}">{base64.b64encode(data).decode()}</script>\n'


def escaped(text: str) -> str:
    """A text as HTML shows it: lines stay lines, other characters that are not printed become U+FFFD."""
    kept = "".join(c if c == "\n" or (c.isprintable() and not "\ud800" <= c <= "\udfff") else "\ufffd" for c in text)
    return kept.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


@lru_cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}"
