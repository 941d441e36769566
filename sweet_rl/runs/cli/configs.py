"""The files of settings that come with the package: `configs/` of the repository, which an install has in sweet_rl."""

from __future__ import annotations

from pathlib import Path

import sweet_rl

PACKAGE = Path(sweet_rl.__file__).parent
FOLDERS = (PACKAGE / "configs", PACKAGE.parent / "configs")  # of an install, of a checkout


def packaged_config(name: str) -> Path:
    """The path of a packaged file or folder, which need not exist: `packaged_config("paper/results.yaml")`."""
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), FOLDERS[-1] / name)


def find_config(path: str) -> Path:
    """The file at `path`; if there is none, the packaged one of this name, with or without `configs/` before it."""
    packaged = packaged_config(path.removeprefix("configs/"))
    return packaged if not Path(path).exists() and packaged.is_file() else Path(path)
