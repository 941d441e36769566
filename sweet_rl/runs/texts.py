"""Small files that are written whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths


def write_text(path: Path, text: str) -> None:
    """Write a file, or that to which a link leads, atomically: at any moment it has its old or its new content."""
    real = Path(os.path.realpath(path))
    partial = real.with_name(real.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, real)


def write_texts(texts: Mapping[str | Path, str], overwrite: bool = False) -> None:
    """Write small outputs that are made anew each time (tables, figures). If one is refused, none is written.

    Raises:
        UserError: A file exists with other content (without `overwrite`), or is a folder.
    """
    by_path = {Path(path): text for path, text in texts.items()}
    check_paths(by_path)
    for path, text in by_path.items():
        if path.is_dir():
            raise UserError(f"{path} is a directory; the output must be a file path.")
        if not overwrite and path.exists() and path.read_bytes() != text.encode():
            raise UserError(f"{path} exists and holds something else. Choose another path, or give --overwrite.")
    for path, text in by_path.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
