"""Which paths a step may not share: its outputs, the files that are written beside them, and its inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.names import local_path

_BESIDE = re.compile(r"(\.(manifest\.json|partial|grading|part-[\w-]+))*")
_DEVICES = ("/dev", "/proc")
_FOLDERS_OF_DEVICES = ("/dev/shm",)  # a file system in memory

Name = str | Path | None


def cache_folder(name: str) -> Path:
    """The folder of this user for what is fetched or computed once: sweet_rl/NAME below XDG_CACHE_HOME or ~/.cache.

    A relative XDG_CACHE_HOME is ignored, as the XDG specification asks.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "sweet_rl" / name


def check_paths(outputs: Iterable[Name], inputs: Iterable[Name] = (), folders: Iterable[Name] = ()) -> None:
    """Check the paths of a step before any work; None is skipped.

    Args:
        outputs: Files and folders that the step writes. Its manifest, its partial copy and its parts lie beside a file.
        inputs: Files and folders that it reads.
        folders: Folders that it fills by itself: caches.

    Raises:
        UserError: An output is no file or folder on a disk; or, through links and in capitals too, it is another
            output, an input, an input's manifest, or where one of them lies.
    """
    written, read = [Path(path) for path in outputs if path], [Path(path) for path in folders if path]
    for path in written:
        _check_on_disk(path)
    for one, other in combinations(written, 2):
        if _clash(one, other) or _clash(other, one) or _clash(_lower(one), _lower(other)):
            raise _refused(other, f"also another output, or written beside it ({one})")
    for path in written:
        for folder in read:
            if _clash(folder, path) or _clash(path, folder):
                raise _refused(path, f"the same as the cache {folder}, or one lies in the other")
        for name in inputs:
            if not name:
                continue
            source = local_path(name)
            if _real(path) == _real(source) or _same_file(path, source):
                raise _refused(path, "also the input")
            manifest = Path(f"{source}.manifest.json")
            if _real(path) == _real(manifest) or _same_file(path, manifest):
                raise _refused(path, f"the manifest of the input {name}")
            if _clash(path, source):
                raise _refused(path, f"where the input {name} lies, or a file beside it is that input")
            if source.is_dir() and any(os.path.dirname(base) == _real(source) for base in _bases(path)):
                raise _refused(path, f"in the input {name}, which it would change")


def _check_on_disk(path: Path) -> None:
    place = os.path.abspath(path)
    device = any(place.startswith(f"{folder}/") for folder in _DEVICES)
    memory = any(place.startswith(f"{folder}/") for folder in _FOLDERS_OF_DEVICES)
    if (device and not memory) or (os.path.exists(place) and not os.path.isfile(place) and not os.path.isdir(place)):
        raise UserError(
            f"{path} is a device or a pipe; the output must be a file on a disk, which can be read again to continue."
        )


def _clash(output: Path, other: Path) -> bool:
    """Whether `other` is the output, lies in it, or is a file that is written beside it."""
    for base in _bases(output):
        for place in _bases(other):
            if place.startswith(base + os.sep):
                return True
            if place.startswith(base) and _BESIDE.fullmatch(place[len(base) :]):
                return True
    return _same_file(output, other) or _same_file(output.with_name(f"{output.name}.manifest.json"), other)


def _bases(path: Path) -> set[str]:
    """The path with all links followed, and with those of its folder alone: what lies beside it lies beside a link."""
    return {_real(path), os.path.join(_real(path.absolute().parent), path.name)}


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _lower(path: Path) -> Path:
    return Path(_real(path).casefold())  # because some file systems do not tell capitals apart


def _same_file(one: Path, other: Path) -> bool:
    return os.path.exists(one) and os.path.exists(other) and one.samefile(other)  # also of names that are too long


def _refused(path: Path, why: str) -> UserError:
    return UserError(f"{path} is {why}: choose another output path, so that nothing is lost.")
