"""What made an output: its settings, its inputs by content, its versions, and whether it is finished."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import sweet_rl
from sweet_rl.errors import UserError

_REMEDY = (
    "Give the old settings to continue it, another output path to keep both, or --overwrite to start anew."
)
DIRECTORY_MANIFEST = "manifest.json"
_PACKAGES = ("torch", "transformers", "tokenizers", "datasets", "aiohttp", "accelerate", "vllm", "deepspeed", "numpy")
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
                + f"\n{_REMEDY}"
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


def manifest_of(path: Path) -> Path:
    """Where the manifest of an output file lies."""
    return path.with_name(path.name + ".manifest.json")


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
