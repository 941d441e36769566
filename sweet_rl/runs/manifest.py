"""The manifest of an output: its command and settings, the hashes of its inputs, versions, whether it is finished."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import sweet_rl
from sweet_rl.runs.cli import command_line
from sweet_rl.runs.errors import UserError, masked
from sweet_rl.runs.names import local_path
from sweet_rl.runs.texts import replace_text
from sweet_rl.runs.user_file import hash_user_file

DIRECTORY_MANIFEST = "manifest.json"
_PACKAGES = ("torch", "transformers", "tokenizers", "datasets", "openai", "accelerate", "vllm", "deepspeed", "numpy")
_BIG = 64 * 2**20  # bytes
_END = 2**20  # bytes


class Manifest:
    """The manifest of one output. `write` replaces its file atomically.

    Args:
        path: Path of the manifest.
        settings: Every setting that influences the output, as JSON values.
        inputs: Files and model directories that the run reads; None is skipped.

    Raises:
        UserError: An input does not exist, or `check_finished` refuses it.
    """

    def __init__(self, path: Path, settings: dict, inputs: Sequence[str | Path | None]):
        self.path = path
        self.inputs = {str(name): _checked_hash(name) for name in inputs if name is not None}
        self.content: dict[str, Any] = {
            "status": "running",
            "command": command_line(),
            "settings": _as_json(settings),
            "seed": settings.get("seed"),
            "inputs": self.inputs,
            "versions": dict(_versions()),
            "started": _now(),
        }

    @property
    def complete(self) -> bool:
        return self.content["status"] == "finished"

    def adopt(self, old: dict, output: str) -> None:
        """Continue the run of the manifest on disk. Raises UserError naming each setting and input that differs."""
        was, now = _flat(old["settings"]), _flat(self.content["settings"])
        changed = [
            f"  {key}: {was.get(key, '(not given)')} -> {now.get(key, '(not given)')}"
            for key in sorted(was.keys() | now.keys())
            if was.get(key) != now.get(key)
        ]
        was, now = old["inputs"], self.content["inputs"]
        if sorted(was.values()) != sorted(now.values()):  # a moved input is no change
            changed += [
                f"  input {name}: {_short(was.get(name))} -> {_short(now.get(name))}"
                for name in sorted(was.keys() | now.keys())
                if was.get(name) != now.get(name)
            ]
        if changed:
            state = "finished" if old["status"] == "finished" else "unfinished"
            lines = "\n".join(changed)
            raise UserError(
                f"{output} belongs to a run ({state}) with other settings (as in its manifest, old -> new):\n{lines}\n"
                "Give the old settings to continue it, another output path to keep both, or --overwrite to start anew."
            )
        self.content = old

    def write(self) -> None:
        _write(self.path, self.content)

    def check_models(self) -> None:
        """Check after the models were loaded that they are those of the manifest. Raises UserError."""
        for name, digest in self.inputs.items():
            if os.path.isdir(name) and hash_input(name) != digest:
                raise UserError(f"{name} was changed or replaced while it was loaded. Give the same command again.")

    def reopen(self) -> None:
        """Mark a finished run as running again."""
        for key in ("finished", "summary", "records", "sha256", "cpu_seconds"):
            self.content.pop(key, None)
        self.content["status"] = "running"
        self.write()

    def finish(self, summary: dict) -> None:
        """Mark the run as finished; its CPU seconds are those of this process, not of one that was killed."""
        self.content |= {"status": "finished", "finished": _now(), "cpu_seconds": _cpu_seconds_of_this_output()}
        self.content["summary"] = _as_json(summary)
        self.write()


_cpu_seconds_noted = 0.0


def _cpu_seconds_of_this_output() -> float:
    """CPU seconds of this process and its ended children that no output has noted yet, so that none counts twice."""
    global _cpu_seconds_noted
    times = os.times()
    spent = times.user + times.system + times.children_user + times.children_system
    new, _cpu_seconds_noted = spent - _cpu_seconds_noted, spent
    return round(new, 2)


def manifest_of(path: Path) -> Path:
    """The path of the manifest of an output: inside a directory, beside a file."""
    return path / DIRECTORY_MANIFEST if path.is_dir() else path.with_name(path.name + ".manifest.json")


def read_manifest(output: str | Path) -> dict | None:
    """The manifest of an output (a file or a directory), or None if it has none, or a directory has another program's.

    Raises:
        UserError: it is damaged.
    """
    path = manifest_of(Path(output))
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        if "status" in found and all(isinstance(found.get(name), dict) for name in ("settings", "inputs")):
            return found
        if path.name == DIRECTORY_MANIFEST:
            return None
    raise UserError(
        f"{path} is not a manifest of a run. Make its output anew (a file with --overwrite, a folder at another path)."
    )


def check_unchanged(output: str | Path, manifest: dict) -> None:
    """Raise UserError if a finished output is not as its run left it."""
    if manifest.get("sha256") not in (None, hash_input(output)):
        raise UserError(
            f"{output} is not as its run left it: another program has cut or changed it. Make it anew (a file with "
            "--overwrite, a folder at another path), or bring back what was there."
        )


def check_finished(name: str | Path, digest: str | None = None) -> None:
    """Check that an input is whole: a file or folder without a manifest, or a finished output as its run left it.

    The content of model directories is not compared, because a model's card or template may be added to them.

    Args:
        name: Path, or a name of a file on the hub.
        digest: The `hash_input` of a file, if it is known already.

    Raises:
        UserError: Its run is not finished, or the file is another one than it left.
    """
    path = local_path(name)
    if not manifest_of(path).exists():
        path = Path(os.path.realpath(path))  # the manifest of what a link leads to
    manifest, beside = read_manifest(path), manifest_of(path)
    if manifest is None:
        return
    if manifest["status"] != "finished":
        raise UserError(
            f"{name} is not finished: give the command that makes it again, which continues it. To use what is there "
            f"as it is, remove {beside}."
        )
    if path.is_file() and manifest.get("sha256") not in (None, digest or hash_input(path)):
        raise UserError(
            f"{name} is not as its run left it: it was cut or changed since. Bring back what was there, or make it "
            f"anew (--overwrite). If you want the change, remove {beside}."
        )


def replace_source(output: Path, source: Path) -> None:
    """Put a finished output in the place of the file that it was made from, whose manifest stays with the new hash.

    Killed in between, the manifest has no hash, and nothing refuses the file.
    """
    digest, manifest = hash_input(output), read_manifest(source)
    if manifest is not None:
        _write(manifest_of(source), manifest | {"sha256": None})
    os.replace(output, os.path.realpath(source))
    manifest_of(output).unlink()
    if manifest is not None:
        _write(manifest_of(source), manifest | {"sha256": digest})


def hash_input(path: str | Path) -> str:
    """The SHA-256 of a file, or of the files of a model directory without its manifest and sub-folders.

    That of a Python file covers the files beside it that it imports (`hash_user_file`).
    Of files above 64 MB in a directory only the size and the first and last MB are hashed: hashing a large model would
    take minutes. Raises UserError if there is nothing at the path.
    """
    path, digest = local_path(path), hashlib.sha256()
    if path.suffix == ".py" and path.is_file():
        return hash_user_file(path)
    if path.is_file():
        with open(path, "rb") as file:
            while chunk := file.read(_END):
                digest.update(chunk)
        return digest.hexdigest()
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


def _checked_hash(name: str | Path) -> str:
    digest = hash_input(name)
    check_finished(name, digest)
    return digest


def _write(path: Path, content: dict) -> None:
    replace_text(path, masked(json.dumps(content, indent=2, ensure_ascii=False, default=str)) + "\n")


def _as_json(settings: dict) -> dict:
    return json.loads(masked(json.dumps(settings, ensure_ascii=False, default=str)))


def _flat(settings: dict, prefix: str = "") -> dict[str, str]:
    """Settings as text by name, `group.name` in a group. A setting of null counts as not given."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[prefix + key] = json.dumps(value, ensure_ascii=False)
    return flat


def _short(digest: str | None) -> str:
    return "(not given)" if digest is None else f"content {digest[:12]}"


def _now() -> str:
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
