"""Paths that an output may not have, and the folder of caches."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
