"""Opens an output of records as a new run or as the continuation of an earlier one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.manifest import Manifest, check_unchanged, manifest_of, read_manifest
from sweet_rl.runs.output import Output, give_up, missing_folders, open_locked
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.records import parse_row
from sweet_rl.runs.texts import check_writable, open_anew

_RECORDS = os.O_RDWR | os.O_APPEND | os.O_CREAT


class Run(Output):
    """An open JSONL output.

    Attributes:
        done: ids of the records on disk.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        lock: int,
        done: set[str],
        replaces: bool = False,
        made: Sequence[Path] = (),
    ):
        super().__init__(path, manifest, lock, made)
        self.done = done
        self._size = os.fstat(lock).st_size
        self._replaces = replaces  # an old output is on disk, to be removed before the first write

    @property
    def empty(self) -> bool:
        return not self.done

    def write(self, record: dict) -> None:
        """Append one record.

        Raises:
            ValueError: NaN, a missing or repeated `id`, or a finished run.
            UserError: the disk is full or not writable; the records on disk stay intact.
        """
        key = record.get("id")
        if not isinstance(key, str) or not key:
            raise ValueError(f"a record needs an 'id' (text), found {key!r}")
        if key in self.done:
            raise ValueError(f"{self.path}: the record {key!r} was written before")
        if self.complete:
            raise ValueError(f"{self.path}: the run is finished, nothing can be added")
        text = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        line = memoryview(text.encode("utf-8", "replace"))  # half of a surrogate pair could not be read again
        self._remove_replaced()
        self._check_alone()
        end = self._size
        try:
            while line:
                line = line[os.write(self._lock, line) :]
            self._size = os.fstat(self._lock).st_size
        except OSError as error:
            os.ftruncate(self._lock, end)
            raise UserError(
                f"{self.path}: a record cannot be written ({error.strerror}). What is there is whole: make room, then "
                "give the same command again to continue."
            ) from error
        self.done.add(key)

    def write_missing(self, records: Iterable[dict]) -> None:
        """Append the records whose ids are not on disk yet."""
        for record in records:
            if record["id"] not in self.done:
                self.write(record)

    def records(self) -> Iterator[dict]:
        """The records on disk, in the order in which they were written."""
        if not self._replaces:
            yield from (row for _, row in _lines(self.path))

    def sort(self, ids: Iterable[str]) -> None:
        """Sort the records by `ids`, so that their order does not depend on completion."""
        self._remove_replaced()
        places, end = {}, 0
        for line, row in _lines(self.path):
            places[row["id"]] = (end, len(line))
            end += len(line)
        order = [key for key in ids if key in places]
        if order != list(places):
            listed = set(order)
            order += [key for key in places if key not in listed]
            with open(self.path, "rb") as old:
                self._replace(os.pread(old.fileno(), size, start) for start, size in map(places.__getitem__, order))

    def remove(self, drop: Callable[[dict], bool]) -> None:
        """Remove the records for which `drop` is true, to be made again. A finished run that has some is reopened."""
        kept = [row["id"] for _, row in _lines(self.path) if not drop(row)]
        if len(kept) < len(self.done):
            self.manifest.reopen()  # before any record goes
            self._replace(line for line, row in _lines(self.path) if not drop(row))
            self.done = set(kept)

    def _replace(self, lines: Iterable[bytes]) -> None:
        """Replace the records by these lines. Killed at any moment, the output is the old one or the new one."""
        real = Path(os.path.realpath(self.path))  # because a link stays a link
        partial = real.with_name(real.name + ".partial")
        with open_anew(partial) as kept:
            kept.writelines(lines)
            kept.flush()
            os.fsync(kept.fileno())
        os.replace(partial, real)
        self.close()
        self._lock = open_locked(self.path, _RECORDS)
        self._size = os.fstat(self._lock).st_size

    def finish(self, summary: dict | None = None) -> None:
        self._remove_replaced()
        self._check_alone()
        self.manifest.content["records"] = len(self.done)
        os.fsync(self._lock)
        super().finish(summary)

    def _check_alone(self) -> None:
        """Raise UserError if another program has changed the output meanwhile."""
        found = os.fstat(self._lock)
        if found.st_size != self._size or not self.path.exists() or not os.path.samestat(found, self.path.stat()):
            raise UserError(
                f"{self.path} was cut, changed or replaced by another program while this one wrote it. Look at what is "
                "there, then give the same command again: it continues with the records that are whole."
            )

    def _remove_replaced(self) -> None:
        """Start the new output of an --overwrite. Killed in between, the output has no manifest and is refused."""
        if self._replaces:
            self.manifest.path.unlink(missing_ok=True)
            os.ftruncate(self._lock, 0)
            self._size = 0
            self.manifest.write()
            self._replaces = False


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
        settings: every setting that influences the records (`cli.to_settings`); not progress, concurrency, batch sizes.
        inputs: files and model directories that the run reads; None is skipped.
        overwrite: replace an existing output as soon as the first record or the summary is written.
        drop: records for which it is true are removed, to be made again; a finished run that has some is reopened.

    Raises:
        UserError: other settings or inputs, an output without a manifest, another process writing to it, a path that
            cannot be written. Nothing on disk is changed in these cases.
    """
    path = Path(output_path)
    check_paths([path], inputs)
    check_output(path, overwrite)
    manifest = Manifest(manifest_of(path), settings, inputs)
    existed, lock = path.exists(), -1
    made = folders = missing_folders(path.parent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open_locked(path, _RECORDS)
        made = [] if existed else [path, manifest.path, *folders]
        empty = os.fstat(lock).st_size == 0
        if overwrite and (not empty or manifest.path.exists()):
            return Run(path, manifest, lock, set(), replaces=True)
        old = read_manifest(path)
        if old is None or (empty and (not existed or old["status"] != "finished")):
            manifest.write()
            return Run(path, manifest, lock, set(), made=made)
        made = []
        manifest.adopt(old, str(path))
        done = _ids_on_disk(lock, path, manifest.complete)
        if manifest.complete and len(done) != manifest.content.get("records", len(done)):
            raise UserError(
                f"{path} has {len(done)} records, but its run was finished with {manifest.content['records']}. "
                "Was the file edited? Give --overwrite to make it anew, or choose another output path."
            )
        if manifest.complete:
            check_unchanged(path, manifest.content)
    except BaseException:
        give_up(lock, made)
        raise
    run = Run(path, manifest, lock, done)
    if drop is not None:
        try:
            run.remove(drop)
        except BaseException:
            run.close()
            raise
    return run


def check_output(output_path: str | Path, overwrite: bool = False) -> None:
    """Check early what `open_run` would refuse whatever the settings, for an output that is opened after long work.

    Raises:
        UserError: a folder, a path that cannot be written, or a file without a manifest.
    """
    path = Path(output_path)
    check_writable(path)
    manifest = manifest_of(path)
    if path.exists() and path.stat().st_size and not overwrite and not manifest.exists():
        raise UserError(
            f"{path} exists and has no manifest ({manifest.name}), so what made it is not known. "
            "Choose another output path, or give --overwrite to replace it."
        )


def _lines(path: Path) -> Iterator[tuple[bytes, dict]]:
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            yield line, parse_row(line, f"{path}, line {number}")


def _ids_on_disk(lock: int, path: Path, complete: bool) -> set[str]:
    """The ids of an output; from one that is not complete a line that was half written is cut off."""
    done: set[str] = set()
    end = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n") and not complete:
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
