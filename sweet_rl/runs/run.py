"""A run on disk: `OUTPUT.jsonl`, one record per line, and `OUTPUT.jsonl.manifest.json` with what made it.

    with open_run(output_path, settings, [input_path], overwrite) as run:
        if run.finished:
            return run.show()
        for turn in turns:
            if turn.id not in run.done:
                run.write({"id": turn.id, ...})
        return run.finish({"turns": len(run.done)})

The same command continues a run that was killed; other settings or inputs are refused. A trained model is a folder with
`manifest.json` inside (`open_model`).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sweet_rl.runs.cli import print_summary
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.manifest import (
    DIRECTORY_MANIFEST,
    check_same_run,
    manifest_of,
    new_manifest,
    now,
    read_manifest,
    write_manifest,
)
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.records import parse_row

Show = Callable[[dict[str, Any]], None]


class Output(AbstractContextManager):
    """An output that this process alone writes: a path, its manifest, a lock.

    Attributes:
        resuming: Whether an unfinished run with the same settings was there.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], lock: int, resuming: bool = False) -> None:
        self.path, self.manifest, self._lock, self.resuming = path, manifest, lock, resuming

    @property
    def finished(self) -> bool:
        """Whether the run is finished: nothing is left to do."""
        return self.manifest["status"] == "finished"

    @property
    def summary(self) -> dict[str, Any]:
        """The summary that `finish` was given, in this process or an earlier one; empty before."""
        return self.manifest.get("summary", {})

    def show(self, show: Show = print_summary) -> dict[str, Any]:
        """Print that the run is complete, then its summary; return the summary."""
        print(f"{self.path}: already complete")
        show(self.summary)
        return self.summary

    def finish(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Mark the run as finished, and return its summary."""
        self.manifest |= {"status": "finished", "finished": now()}
        self.manifest["summary"] = json.loads(json.dumps(summary, default=str))
        write_manifest(self.path, self.manifest)
        return self.summary

    def close(self) -> None:
        """Release the lock. An unfinished run can be continued."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __exit__(self, *_: object) -> None:
        self.close()


class Run(Output):
    """An open JSONL output.

    Attributes:
        done: Ids of the records on disk.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], lock: int, begun: bool) -> None:
        super().__init__(path, manifest, lock)
        self._begun = begun  # until the first write the file may still hold an older output
        self.done = {str(row.get("id")) for row in self.records()}

    def records(self) -> Iterator[dict]:
        """The records on disk, in the order in which they were written."""
        yield from (row for _, row in self._lines())

    def _lines(self) -> Iterator[tuple[bytes, dict]]:
        """Each line with its record. A line that was half written when the process was killed is cut off."""
        if not self._begun:
            return
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n") and not self.finished:
                    os.ftruncate(self._lock, os.fstat(self._lock).st_size - len(line))
                    return
                yield line, parse_row(line, f"{self.path}, line {number}")

    def write(self, record: dict) -> None:
        """Append one record. Raises ValueError for NaN, a missing or repeated `id`, and a finished run."""
        key = record.get("id")
        if not isinstance(key, str) or not key or key in self.done or self.finished:
            raise ValueError(f"{self.path}: a record with the id {key!r} cannot be added")
        text = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        line = memoryview(text.encode("utf-8", "replace"))  # half of a surrogate pair could not be read again
        self._begin()
        while line:
            line = line[os.write(self._lock, line) :]
        self.done.add(key)

    def write_missing(self, records: Iterable[dict]) -> None:
        """Append the records whose ids are not on disk yet."""
        for record in records:
            if record["id"] not in self.done:
                self.write(record)

    def sort(self, ids: Iterable[str]) -> None:
        """Sort the records by `ids`, so that their order does not depend on completion."""
        lines = {row["id"]: line for line, row in self._lines()}
        places = {key: place for place, key in enumerate(ids)}
        order = sorted(lines, key=lambda key: places.get(key, len(places)))
        if order != list(lines):
            self._replace(map(lines.__getitem__, order))

    def remove(self, drop: Callable[[dict], bool]) -> None:
        """Remove the records for which `drop` is true, to be made again. A finished run that has some is reopened."""
        kept = {row["id"]: line for line, row in self._lines() if not drop(row)}
        if len(kept) < len(self.done):
            for name in ("finished", "summary"):
                self.manifest.pop(name, None)
            self.manifest["status"] = "running"
            write_manifest(self.path, self.manifest)  # written before records are removed
            self._replace(kept.values())
            self.done = set(kept)

    def _replace(self, lines: Iterable[bytes]) -> None:
        """Replace the records by these lines. Killed at any moment, the output is the old one or the new one."""
        real = Path(os.path.realpath(self.path))  # because a link stays a link
        partial = real.with_name(real.name + ".partial")
        with open(partial, "wb") as file:
            file.writelines(lines)
        os.replace(partial, real)
        self.close()
        self._lock = _locked(self.path, os.O_RDWR | os.O_APPEND)

    def _begin(self) -> None:
        """Before the first write: remove the old output of an --overwrite, and write the manifest of this run."""
        if not self._begun:
            manifest_of(self.path).unlink(missing_ok=True)  # killed after this, a file with old records is refused
            os.ftruncate(self._lock, 0)
            write_manifest(self.path, self.manifest)
            self._begun = True

    def finish(
        self, summary: dict[str, Any], show: Show | None = print_summary, may_be_empty: bool = False
    ) -> dict[str, Any]:
        """Mark the run as finished; show its summary and return it.

        Args:
            summary: Figures of the run.
            show: Prints the summary; None prints nothing.
            may_be_empty: Whether an output without records is finished too.

        Raises:
            NothingMade: The output has no records; its summary has been shown.
        """
        if show is not None:
            show(summary)
        if not self.done and not may_be_empty:
            raise NothingMade(f"{self.path}: not a single record came out. The summary above says what was read.")
        self._begin()
        return super().finish(summary)


def open_run(
    output_path: str | Path,
    settings: dict,
    inputs: Sequence[str | Path | None] = (),
    overwrite: bool = False,
    drop: Callable[[dict], bool] | None = None,
) -> Run:
    """Open an output: a new one, or the same run (equal settings, inputs with equal content) where it stopped.

    Args:
        output_path: JSONL file; its folder is made.
        settings: Every setting that influences the records (`cli.to_settings`); not progress, concurrency, batch sizes.
        inputs: Files and model directories that the run reads; None is skipped.
        overwrite: Replace an existing output as soon as the first record or the summary is written.
        drop: Records for which it is true are removed, to be made again; a finished run that has some is reopened.

    Raises:
        UserError: Other settings or inputs, an output without a manifest, another process writing to it.
    """
    path = Path(output_path)
    check_paths([path], inputs)
    check_output(path, overwrite)
    manifest = new_manifest(settings, inputs)
    existed = path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _locked(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        old = read_manifest(path) if existed and not overwrite else None
        if old is not None and old["status"] != "finished" and not path.stat().st_size:
            old = None  # it has no records, so it may have other settings
        if old is not None:
            check_same_run(old, manifest, path)
        run = Run(path, old or manifest, lock, begun=old is not None)
    except BaseException:
        os.close(lock)
        raise
    if drop is not None:
        run.remove(drop)
    return run


def check_output(output_path: str | Path, overwrite: bool = False) -> None:
    """Check early what `open_run` would refuse whatever the settings, for an output that is opened after long work.

    Raises:
        UserError: A folder, or a file without a manifest.
    """
    path = Path(output_path)
    if path.is_dir():
        raise UserError(f"{path} is a directory; the output must be a file path.")
    if path.exists() and path.stat().st_size and not overwrite and not manifest_of(path).exists():
        raise UserError(
            f"{path} exists and has no manifest ({manifest_of(path).name}), so what made it is not known. "
            "Choose another output path, or give --overwrite to replace it."
        )


def open_model(
    path: str | Path, settings: dict, inputs: Sequence[str | Path | None] = (), overwrite: bool = False
) -> Output:
    """Open a model directory as `open_run` opens a file. Of several processes only rank 0 opens it.

    `overwrite` empties a directory only if it holds a manifest: a mistyped path must not cost a home directory.
    """
    path = Path(path)
    check_paths([path], inputs)
    manifest = new_manifest(settings, inputs)
    path.mkdir(parents=True, exist_ok=True)
    lock = _locked(path, os.O_RDONLY)
    try:
        old = read_manifest(path)
        begun = any(not entry.name.startswith(DIRECTORY_MANIFEST) for entry in path.iterdir())
        if old is None and begun:
            raise UserError(
                f"{path} is not empty and has no {DIRECTORY_MANIFEST}, so what made it is not known. "
                "Choose another path, or empty it by hand."
            )
        if old is not None and begun and not overwrite and old["status"] != "emptying":
            check_same_run(old, manifest, path)
            return Output(path, old, lock, resuming=old["status"] != "finished")
        write_manifest(path, manifest | {"status": "emptying"})  # killed in between, the next run empties the rest
        for entry in path.iterdir():
            if entry.name != DIRECTORY_MANIFEST:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        write_manifest(path, manifest)
        return Output(path, manifest, lock)
    except BaseException:
        os.close(lock)
        raise


def _locked(path: Path, flags: int) -> int:
    """Open an output and lock it for this process. Raises UserError if another process has it."""
    lock = os.open(path, flags, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise UserError(f"{path} is being written by another process. Wait for it, or choose another path.") from error
    return lock
