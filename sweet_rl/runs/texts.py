"""Small files that are written whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths

LONGEST_NAME = 255  # bytes, of every usual file system
LONGEST_SUFFIX = ".part-10-of-10.manifest.json.partial"  # of the files that lie beside an output for a while


def write_texts(texts: Mapping[str | Path, str], overwrite: bool = False) -> None:
    """Write small outputs that are made anew each time (tables, figures). If one is refused, none is written.

    Raises:
        UserError: a file exists with other content (without `overwrite`), or cannot be written.
    """
    by_path = {Path(path): text for path, text in texts.items()}
    check_paths(by_path)
    for path, text in by_path.items():
        check_writable(path)
        if not overwrite and path.exists() and path.read_bytes() != text.encode("utf-8", "backslashreplace"):
            raise UserError(f"{path} exists and holds something else. Choose another path, or give --overwrite.")
    for path, text in by_path.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)


def replace_text(path: Path, text: str) -> None:
    """Write a file, or that to which a link leads, atomically: at any moment it has its old or its new content."""
    real = Path(os.path.realpath(path))
    partial = real.with_name(real.name + ".partial")
    try:
        with open_anew(partial) as file:
            file.write(text.encode("utf-8", "backslashreplace"))  # JSON's escape for a path's odd bytes
        _sync(partial)
        os.replace(partial, real)
        _sync(real.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        error.filename = str(path)  # a write to a full disk names none
        raise


def open_anew(path: Path) -> BinaryIO:
    """A new file in the place of whatever is there; of a link that somebody has put there, nothing is followed."""
    path.unlink(missing_ok=True)
    return open(path, "xb")


def make_durable(folder: Path) -> None:
    """Return when the disk holds all that is in a folder, so that a power cut afterwards takes nothing of it away."""
    for path in (*folder.rglob("*"), folder, folder.parent):
        if path.exists():  # not a link that leads nowhere
            _sync(path)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError) if path.is_dir() else contextlib.nullcontext():  # some disks sync files only
            os.fsync(number)
    finally:
        os.close(number)


def check_writable(path: Path) -> None:
    """Raise UserError if a file cannot be written there."""
    if path.parts[:1] == ("hf:",):
        raise UserError(f"{path} is on the hub; an output is a local path. Upload it when it is finished: `hf upload`.")
    if len(os.fsencode(path.name + LONGEST_SUFFIX)) > LONGEST_NAME:
        raise UserError(
            f"the name {path.name[:60]!r}... has {len(path.name)} characters, which is too long for the files that lie "
            "beside it for a while. Choose a shorter one."
        )
    if path.is_dir():
        raise UserError(f"{path} is a directory; the output must be a file path.")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(path if path.exists() else above, os.W_OK):
        reason = "is no folder" if not above.is_dir() else "must not be written to"
        raise UserError(f"cannot write to {path}: {above} {reason}. Choose another output path.")
