"""A run on disk: records appended one by one, a manifest beside them, and the same command continues it.

An output is `path` (JSONL) and `path.manifest.json`; a model directory holds its `manifest.json` inside. The
manifest says which settings and inputs made the output, and whether it is finished. Records survive the
process being killed; one that was half written is dropped and made again. What a power cut keeps is up to the
file system.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sweet_rl.errors import RecordError, UserError
from sweet_rl.records import parse_row
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST, Manifest, manifest_of


class _Output:
    """What a run over a file and a run over a directory have in common: a lock, a manifest, a summary."""

    def __init__(self, path: Path, manifest: Manifest, lock: int):
        self.path, self.manifest, self._lock = path, manifest, lock

    @property
    def complete(self) -> bool:
        """True where this very run was finished before: nothing is left to do."""
        return self.manifest.complete

    @property
    def summary(self) -> dict | None:
        """What `finish` was given, now or in an earlier process."""
        return self.manifest.content.get("summary")

    def finish(self, summary: dict | None = None) -> None:
        """Marks the run finished, with its summary."""
        self.manifest.finish(summary or {})

    def close(self) -> None:
        """Gives the output back; an unfinished run can be continued."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Run(_Output):
    """An open JSONL output. `done` holds the ids on disk, `write` appends one record and flushes it.

    Attributes: path, complete, done (set of ids), summary.
    """

    def __init__(self, path: Path, manifest: Manifest, lock: int, done: set[str], replaces: bool = False):
        super().__init__(path, manifest, lock)
        self.done = done
        self._replaces = replaces  # what is on disk goes when there is something to put in its place

    def _begin(self) -> None:
        """Killed in between, the output is refused for want of a manifest, never taken for a finished one."""
        if self._replaces:
            self.manifest.path.unlink(missing_ok=True)
            os.ftruncate(self._lock, 0)
            self.manifest.write()
            self._replaces = False

    def write(self, record: dict) -> None:
        """Appends one record with its `id`. Raises ValueError for NaN and for a missing or repeated id."""
        key = record.get("id")
        if not isinstance(key, str) or not key:
            raise ValueError(f"a record needs an 'id' (text), found {key!r}")
        if key in self.done:
            raise ValueError(f"{self.path}: the record {key!r} was written before")
        if self.complete:
            raise ValueError(f"{self.path}: the run is finished, nothing can be added")
        line = memoryview(
            json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
            + b"\n"
        )
        self._begin()
        end = os.fstat(self._lock).st_size
        try:
            while line:
                line = line[os.write(self._lock, line) :]
        except OSError as error:
            os.ftruncate(self._lock, end)  # what was written of the line would spoil the next one
            raise UserError(
                f"{self.path}: a record cannot be written ({error.strerror}). What is there is whole: make room, then "
                "give the same command again to continue."
            ) from error
        self.done.add(key)

    def records(self) -> Iterator[dict]:
        """The records on disk, in the order in which they were written."""
        if self._replaces:
            return
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                yield parse_row(line, f"{self.path}, line {number}")

    def finish(self, summary: dict | None = None) -> None:
        self._begin()
        self.manifest.content["records"] = len(self.done)
        os.fsync(self._lock)
        super().finish(summary)


def check_output(output_path: str | Path, overwrite: bool = False) -> None:
    """Raises UserError where `open_run` will, whatever the settings: a folder, a path that cannot be written, a
    file without a manifest. For an output that is opened only after long work."""
    path = Path(output_path)
    _check_writable(path)
    manifest = manifest_of(path)
    if path.exists() and path.stat().st_size and not overwrite and not manifest.exists():
        raise UserError(
            f"{path} exists and has no manifest ({manifest.name}), so what made it is not known. "
            "Choose another output path, or give --overwrite to replace it."
        )


def write_texts(texts: Mapping[str | Path, str], overwrite: bool = False) -> None:
    """Writes small outputs (tables, figures) that are made anew each time; all of them or none.

    Raises UserError for one that exists with other content, unless `overwrite`, and for one that cannot be written.
    """
    for path, text in texts.items():
        path = Path(path)
        _check_writable(path)
        if not overwrite and path.exists() and path.read_bytes() != text.encode("utf-8"):
            raise UserError(f"{path} exists and holds something else. Choose another path, or give --overwrite.")
    for path, text in texts.items():
        path = Path(path)
        partial = path.with_name(path.name + ".partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)


def open_run(
    output_path: str | Path,
    settings: dict,
    inputs: Sequence[str | Path | None] = (),
    overwrite: bool = False,
    drop: Callable[[dict], bool] | None = None,
) -> Run:
    """Opens an output: a new one, or the same run (equal settings, inputs with equal content) where it
    stopped.

    settings: every setting that changes the records; leave out progress, concurrency, batch sizes.
    inputs: the files and model directories that were read; None is passed over.
    overwrite: what is there is replaced as soon as the first record (or the summary) is written, not before.
    drop: records for which it is true are taken out of the output, to be made again; a finished run that has such
    records is unfinished then.
    Raises UserError: other settings or inputs, an output without a manifest, another process writing to it, a
    path that cannot be written. Nothing on disk is changed in these cases.
    """
    path = Path(output_path)
    check_output(path, overwrite)
    _check_apart(path, inputs)
    manifest = Manifest(manifest_of(path), settings, inputs)
    existed = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror}. Choose another output path.") from error
    try:
        _take(lock, path)
        if not os.path.samestat(os.fstat(lock), os.stat(path)):  # another process has just replaced the file
            raise _taken(path)
        done: set[str] = set()
        empty = os.fstat(lock).st_size == 0
        if overwrite and (not empty or manifest.path.exists()):
            return Run(path, manifest, lock, done, replaces=True)
        old = manifest.read()
        if old is None or (empty and (not existed or old["status"] != "finished")):
            manifest.write()
        else:
            manifest.adopt(old, str(path))
            done = _ids_on_disk(lock, path)
            if manifest.complete and len(done) != manifest.content.get("records", len(done)):
                raise UserError(
                    f"{path} has {len(done)} records, but its run was finished with {manifest.content['records']}. "
                    "Was the file edited? Give --overwrite to make it anew, or choose another output path."
                )
            if drop is not None:
                lock = _without(lock, path, manifest, drop)
                done = _ids_on_disk(lock, path)
        return Run(path, manifest, lock, done)
    except BaseException:
        os.close(lock)
        raise


def _without(lock: int, path: Path, manifest: Manifest, drop: Callable[[dict], bool]) -> int:
    """Replaces the output by one without the records to be dropped, if there are any; the file to go on with.

    Killed at any moment, the output is the old one or the new one, and belongs to an unfinished run from the moment
    in which records may be missing.
    """
    partial = path.with_name(path.name + ".partial")
    dropped = 0
    with open(path, "rb") as file, open(partial, "wb") as kept:
        for number, line in enumerate(file, start=1):
            if drop(parse_row(line, f"{path}, line {number}")):
                dropped += 1
            else:
                kept.write(line)
        kept.flush()
        os.fsync(kept.fileno())
    if not dropped:
        partial.unlink()
        return lock
    for key in ("finished", "summary", "records"):
        manifest.content.pop(key, None)
    manifest.content["status"] = "running"
    manifest.write()
    own = os.open(partial, os.O_RDWR | os.O_APPEND)
    try:
        _take(own, path)  # before it gets the output's name: at no moment may another process write to it
        os.replace(partial, path)
    except BaseException:
        os.close(own)
        raise
    os.close(lock)
    return own


class DirectoryRun(_Output):
    """An open model directory. `resuming`: an unfinished run of the same settings was found there."""

    def __init__(self, path: Path, manifest: Manifest, lock: int, resuming: bool):
        super().__init__(path, manifest, lock)
        self.resuming = resuming


def directory_manifest(
    path: str | Path, settings: dict, inputs: Sequence[str | Path | None] = (), overwrite: bool = False
) -> DirectoryRun:
    """The same promise for a directory (a trained model and its checkpoints); of several processes, rank 0
    opens it.

    `overwrite` empties a directory only if it holds a manifest of ours: a mistyped path must not cost a home
    directory. Raises UserError as `open_run` does.
    """
    path = Path(path)
    _check_apart(path, inputs)
    manifest = Manifest(path / DIRECTORY_MANIFEST, settings, inputs)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise UserError(
            f"cannot use {path} as a directory: {error.strerror}. Choose another path."
        ) from error
    try:
        _take(lock, path)
        old = manifest.read()
        if old is None and any(entry.name != manifest.path.name + ".partial" for entry in path.iterdir()):
            raise UserError(
                f"{path} is not empty and has no {DIRECTORY_MANIFEST}, so what made it is not known. "
                "Choose another path, or empty it by hand."
            )
        if old is None or overwrite or old["status"] == "emptying":
            manifest.content["status"] = "emptying"  # killed in between, the directory is emptied to its end first
            manifest.write()
            for entry in path.iterdir():
                if entry.name != DIRECTORY_MANIFEST:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            manifest.content["status"] = "running"
            manifest.write()
            return DirectoryRun(path, manifest, lock, resuming=False)
        manifest.adopt(old, str(path))
        return DirectoryRun(path, manifest, lock, resuming=not manifest.complete)
    except BaseException:
        os.close(lock)
        raise


def _check_apart(path: Path, inputs: Sequence[str | Path | None]) -> None:
    """Raises UserError if an input is the output, or lies in it, and would be lost where the output is replaced."""
    output = path.resolve()
    for name in filter(None, inputs):
        if output in (Path(name).resolve(), *Path(name).resolve().parents):
            where = "also the input" if Path(name).resolve() == output else f"where the input {name} lies"
            raise UserError(f"{path} is {where}: choose another output path, so that nothing is lost.")


def _check_writable(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"{path} is a directory; the output must be a file path.")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(path if path.exists() else above, os.W_OK):
        reason = "is no folder" if not above.is_dir() else "must not be written to"
        raise UserError(f"cannot write to {path}: {above} {reason}. Choose another output path.")


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise _taken(path) from error


def _taken(path: Path) -> UserError:
    return UserError(f"{path} is being written by another process. Wait for it, or choose another path.")


def _ids_on_disk(lock: int, path: Path) -> set[str]:
    done: set[str] = set()
    end = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                os.ftruncate(lock, end)
                break
            key = parse_row(line, f"{path}, line {number}").get("id")
            if not isinstance(key, str) or key in done:
                raise RecordError(
                    f"{path}, line {number}: the id {key!r} is missing or repeated, so the run cannot be "
                    "continued. Was the file edited? Give --overwrite to make it anew."
                )
            done.add(key)
            end += len(line)
    return done
