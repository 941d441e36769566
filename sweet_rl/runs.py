"""A run on disk: records appended one by one, a manifest beside them, and the same command continues it.

An output is `path` (JSONL) and `path.manifest.json`; a model directory holds its `manifest.json` inside. The
manifest says which settings and inputs made the output, and whether it is finished. Records survive the
process being killed; one that was half written is dropped and made again. What a power cut keeps is up to the
file system.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import sweet_rl
from sweet_rl.errors import RecordError, UserError
from sweet_rl.records import parse_row

REMEDY = (
    "Give the old settings to continue it, another output path to keep both, or --overwrite to start anew."
)
DIRECTORY_MANIFEST = "manifest.json"
_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "aiohttp",
    "accelerate",
    "vllm",
    "deepspeed",
    "numpy",
)
_BIG = 64 * 2**20


class Manifest:
    """What made an output, as a file that is replaced whole."""

    def __init__(self, path: Path, settings: dict, inputs: Sequence[str | Path | None]):
        self.path = path
        self.content: dict[str, Any] = {
            "status": "running",
            "settings": _plain(settings),
            "seed": settings.get("seed"),
            "inputs": {str(name): hash_input(name) for name in inputs if name is not None},
            "versions": _versions(),
            "started": _now(),
        }

    def read(self) -> dict | None:
        """The manifest on disk, or None. Raises UserError if it cannot be read."""
        if not self.path.exists():
            return None
        try:
            old = json.loads(self.path.read_text(encoding="utf-8"))
            if isinstance(old, dict) and {"status", "settings", "inputs"} <= old.keys():
                return old
        except ValueError:
            pass
        raise UserError(
            f"{self.path} is not a manifest of a run. Remove it and its output, or give --overwrite."
        )

    def adopt(self, old: dict, what: str) -> None:
        """Goes on with the run on disk; raises UserError naming each setting or input that differs."""
        changed = [
            f"  --{key}: {_value(old['settings'], key)} -> {_value(self.content['settings'], key)}"
            for key in sorted(old["settings"].keys() | self.content["settings"].keys())
            if _value(old["settings"], key) != _value(self.content["settings"], key)
        ]
        was, now = old["inputs"], self.content["inputs"]
        if sorted(was.values()) != sorted(now.values()):
            changed += [
                f"  input {name}: {_short(was.get(name))} -> {_short(now.get(name))}"
                for name in sorted(was.keys() | now.keys())
                if was.get(name) != now.get(name)
            ]
        if changed:
            state = "finished" if old["status"] == "finished" else "unfinished"
            raise UserError(
                f"{what} belongs to a run ({state}) with other settings (old -> new):\n"
                + "\n".join(changed)
                + f"\n{REMEDY}"
            )
        self.content = old

    def write(self) -> None:
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(
            json.dumps(self.content, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8"
        )
        os.replace(partial, self.path)

    def finish(self, summary: dict) -> None:
        self.content |= {"status": "finished", "finished": _now(), "summary": _plain(summary)}
        self.write()

    @property
    def complete(self) -> bool:
        return self.content["status"] == "finished"


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


def manifest_of(path: Path) -> Path:
    """Where the manifest of an output file lies."""
    return path.with_name(path.name + ".manifest.json")


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


def hash_input(path: str | Path) -> str:
    """The SHA-256 of a file's content, or of a model directory's files (its manifest and sub-folders left
    out).

    Of files in a directory above 64 MB only the size and the first and last MB are hashed, so that naming a
    large model does not take minutes. Raises UserError if there is nothing at the path.
    """
    path, digest = Path(path), hashlib.sha256()
    if path.is_file():
        with open(path, "rb") as file:
            return (
                hashlib.file_digest(file, "sha256").hexdigest()
                if hasattr(hashlib, "file_digest")
                else _stream(file)
            )
    if not path.is_dir():
        raise UserError(f"{path} does not exist. An input of this run was expected there: check the path.")
    for entry in sorted(p for p in path.iterdir() if p.is_file() and p.name != DIRECTORY_MANIFEST):
        size = entry.stat().st_size
        digest.update(f"{entry.name}\0{size}\0".encode())
        with open(entry, "rb") as file:
            if size <= _BIG:
                digest.update(file.read())
            else:
                digest.update(file.read(2**20))
                file.seek(-(2**20), os.SEEK_END)
                digest.update(file.read())
    return digest.hexdigest()


def _stream(file) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


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


def _plain(settings: dict) -> dict:
    return json.loads(json.dumps(settings, default=str))


def _value(settings: dict, key: str) -> str:
    return json.dumps(settings[key], ensure_ascii=False) if key in settings else "(not given)"


def _short(digest: str | None) -> str:
    return "(not given)" if digest is None else f"content {digest[:12]}"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "sweet_rl": sweet_rl.__version__}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
