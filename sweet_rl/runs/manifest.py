"""The manifest of an output: its command and settings, the hashes of its inputs, versions, whether it is finished."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import sweet_rl
from sweet_rl.runs.errors import UserError, masked
from sweet_rl.runs.hub import local_path
from sweet_rl.runs.paths import write_text
from sweet_rl.runs.user_file import hash_user_file

FORMAT = 2
DIRECTORY_MANIFEST = "manifest.json"
_PACKAGES = ("torch", "transformers", "tokenizers", "datasets", "openai", "accelerate", "vllm", "deepspeed", "numpy")
_BIG = 64 * 2**20  # bytes
_END = 2**20  # bytes


def new_manifest(settings: dict, inputs: Sequence[str | Path | None]) -> dict[str, Any]:
    """The manifest of a run that begins. Raises UserError if an input does not exist, or is not finished.

    Args:
        settings: Every setting that influences the output, as JSON values.
        inputs: Files and model directories that the run reads; None is skipped.
    """
    for name in inputs:
        if name is not None:
            check_finished(name)
    return {
        "format": FORMAT,
        "status": "running",
        "command": shlex.join(map(masked, ["python", *sys.argv])),
        "settings": json.loads(masked(json.dumps(settings, default=str))),
        "seed": settings.get("seed"),
        "inputs": {str(name): hash_input(name) for name in inputs if name is not None},
        "versions": dict(_versions()),
        "started": now(),
    }


def check_same_run(old: dict, new: dict, output: str | Path) -> None:
    """Check that a manifest on disk is of the run that is wanted.

    Raises:
        UserError: Other settings or inputs, each of which is named; or an unfinished run of an older format.
    """
    changed = _changes(_flat(old["settings"]), _flat(new["settings"]))
    if sorted(old["inputs"].values()) != sorted(new["inputs"].values()):  # a moved input is no change
        was, now = ({f"input {name}": digest[:12] for name, digest in one["inputs"].items()} for one in (old, new))
        changed += _changes(was, now)
    if changed:
        lines = "\n".join(changed)
        raise UserError(
            f"{output} belongs to a run with other settings (as in its manifest, old -> new):\n{lines}\n"
            "Give the old settings to continue it, another output path to keep both, or --overwrite to start anew."
        )
    if old["status"] != "finished" and old.get("format") != FORMAT:
        raise UserError(
            f"An earlier version of sweet_rl began {output}, and this one cannot continue it. Finish it with that "
            "version, choose another output path, or give --overwrite."
        )


def manifest_of(path: Path) -> Path:
    """The path of the manifest of an output: inside a directory, beside a file."""
    return path / DIRECTORY_MANIFEST if path.is_dir() else path.with_name(path.name + ".manifest.json")


def read_manifest(output: str | Path) -> dict | None:
    """The manifest of an output (a file or a directory); None if it has none, or another program's.

    Raises:
        UserError: It is damaged.
    """
    path = manifest_of(Path(output))
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not a manifest of a run ({error}). Make its output anew.") from error
    ours = isinstance(content, dict) and content.keys() >= {"status", "settings", "inputs"}
    return content if ours else None


def write_manifest(output: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest of an output atomically."""
    write_text(manifest_of(output), masked(json.dumps(manifest, indent=2, default=str)) + "\n")


def check_finished(name: str | Path) -> None:
    """Check that an input is whole: a file or folder without a manifest, or a finished output.

    Args:
        name: Path, or a name of a file on the hub.

    Raises:
        UserError: Its run is not finished.
    """
    path = local_path(name)
    if not manifest_of(path).exists():
        path = Path(os.path.realpath(path))  # the manifest of what a link leads to
    manifest = read_manifest(path)
    if manifest is not None and manifest["status"] != "finished":
        raise UserError(
            f"{name} is not finished: give the command that makes it again, which continues it. To use what is there "
            f"as it is, remove {manifest_of(path)}."
        )


def hash_input(path: str | Path) -> str:
    """The SHA-256 of a file, or of the files of a model directory without its manifest and sub-folders.

    That of a Python file covers the modules of its folder that it has loaded (`hash_user_file`). Of files above 64 MB
    in a directory only the size and the first and last MB are hashed: hashing a large model would take minutes.
    Raises UserError if there is nothing at the path.
    """
    path, digest = local_path(path), hashlib.sha256()
    if path.suffix == ".py" and path.is_file():
        return hash_user_file(path)
    if path.is_file():
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        raise UserError(f"{path} does not exist. An input of this run was expected there: check the path.")
    for entry in sorted(p for p in path.iterdir() if p.is_file() and p.name != DIRECTORY_MANIFEST):
        size = entry.stat().st_size
        digest.update(os.fsencode(f"{entry.name}\0{size}\0"))
        with open(entry, "rb") as file:
            if size > _BIG:
                digest.update(file.read(_END))
                file.seek(-_END, os.SEEK_END)
            digest.update(file.read())
    return digest.hexdigest()


def _flat(settings: dict, prefix: str = "") -> dict[str, str]:
    """Settings as text by name, `group.name` in a group. A setting of null counts as not given."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[prefix + key] = json.dumps(value, ensure_ascii=False)
    return flat


def _changes(was: dict[str, str], now: dict[str, str]) -> list[str]:
    return [
        f"  {key}: {was.get(key, '(not given)')} -> {now.get(key, '(not given)')}"
        for key in sorted(was.keys() | now.keys())
        if was.get(key) != now.get(key)
    ]


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "sweet_rl": sweet_rl.__version__}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
