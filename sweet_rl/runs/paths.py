"""Paths that an output may not have, small outputs that are written whole, and the folder of caches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.hub import local_path

Name = str | Path | None


def cache_folder(name: str) -> Path:
    """The folder of this user for what is fetched or computed once: sweet_rl/NAME below XDG_CACHE_HOME or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweet_rl" / name


def check_paths(outputs: Iterable[Name], inputs: Iterable[Name] = ()) -> None:
    """Check the paths of a step before any work; None is skipped.

    Raises:
        UserError: An output, links followed, is another output or an input, or a folder that holds an input.
    """
    read = [local_path(name).resolve() for name in inputs if name]
    written: list[Path] = []
    for output in outputs:
        if not output:
            continue
        path = Path(output).resolve()
        if path in read or any(path in one.parents for one in read):
            raise UserError(f"{output} is also the input, or holds it: choose another output path.")
        if path in written:
            raise UserError(f"{output} is also another output: choose another path.")
        written.append(path)


def write_text(path: Path, text: str) -> None:
    """Write a file, or that to which a link leads, atomically: at any moment it has its old or its new content."""
    real = Path(os.path.realpath(path))
    partial = real.with_name(real.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, real)


def write_texts(texts: Mapping[str | Path, str], overwrite: bool = False) -> None:
    """Write small outputs that are made anew each time (tables, figures). If one is refused, none is written.

    Raises:
        UserError: A file exists with other content (without `overwrite`).
    """
    check_paths(texts)
    for path, text in texts.items():
        if not overwrite and Path(path).exists() and Path(path).read_bytes() != text.encode():
            raise UserError(f"{path} exists and holds something else. Choose another path, or give --overwrite.")
    for path, text in texts.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_text(Path(path), text)
