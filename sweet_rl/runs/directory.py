"""Opens a model directory as a new run or as the continuation of an earlier one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST, Manifest, check_unchanged, read_manifest
from sweet_rl.runs.output import Output, give_up, missing_folders, open_locked
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.texts import make_durable


class DirectoryRun(Output):
    """An open model directory.

    Attributes:
        resuming: whether an unfinished run with the same settings was found.
    """

    def __init__(self, path: Path, manifest: Manifest, lock: int, resuming: bool, made: Sequence[Path] = ()):
        super().__init__(path, manifest, lock, made)
        self.resuming = resuming

    @property
    def empty(self) -> bool:
        return all(entry.is_dir() or entry == self.manifest.path for entry in self.path.rglob("*"))

    def finish(self, summary: dict | None = None) -> None:
        make_durable(self.path)
        super().finish(summary)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None and self._made:
            inside = sorted((entry for entry in self.path.rglob("*") if entry.is_dir()), reverse=True)
            self._made = [*inside, *self._made]
        super().__exit__(kind, *rest)


def directory_manifest(
    path: str | Path, settings: dict, inputs: Sequence[str | Path | None] = (), overwrite: bool = False
) -> DirectoryRun:
    """Open a model directory as `open_run` opens a file. Of several processes only rank 0 opens it.

    `overwrite` empties a directory only if it holds a manifest: a mistyped path must not cost a home directory. A path
    that is not UTF-8 is refused.
    """
    path = Path(path)
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{path.absolute()} is no path in UTF-8, which the libraries that write models need: choose another."
        ) from error
    check_paths([path], inputs)
    manifest = Manifest(path / DIRECTORY_MANIFEST, settings, inputs)
    folders, lock = missing_folders(path), -1
    made: list[Path] = []
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = open_locked(path, os.O_RDONLY)
        old = read_manifest(path)
        if old is None and any(entry.name != manifest.path.name + ".partial" for entry in path.iterdir()):
            raise UserError(
                f"{path} is not empty and has no {DIRECTORY_MANIFEST}, so what made it is not known. "
                "Choose another path, or empty it by hand."
            )
        made = [manifest.path, *folders] if old is None else []
        if old is None or overwrite or old["status"] == "emptying":
            manifest.content["status"] = "emptying"  # killed in between, the next run empties the rest first
            manifest.write()
            for entry in path.iterdir():
                if entry.name != DIRECTORY_MANIFEST:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            manifest.content["status"] = "running"
            manifest.write()
            return DirectoryRun(path, manifest, lock, resuming=False, made=made)
        manifest.adopt(old, str(path))
        if manifest.complete:
            check_unchanged(path, manifest.content)
        return DirectoryRun(path, manifest, lock, resuming=not manifest.complete)
    except BaseException:
        give_up(lock, made)
        raise
