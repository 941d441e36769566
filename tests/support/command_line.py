"""The scripts' command lines, called in this process or in one of their own, and what they leave on disk."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Result:
    """What a command did: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def words_of(flags: dict) -> list[str]:
    """--name value for each flag; True is the flag alone and None leaves it out."""
    words: list[str] = []
    for name, value in flags.items():
        if value is not None:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def call(script: str, *words: str, **flags) -> Result:
    """Runs a script as __main__ in this process, with its command line.

    `script` is the name of a file in scripts/ ("train_dpo.py"), or a module of the laboratory, as after `python -m`
    ("lab.task_audit.audit_tasks").
    """
    path = _path(script)
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", [str(path), *words, *words_of(flags)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Result(code, out.getvalue(), err.getvalue())


def process(script: str, **flags) -> tuple[list[str], dict[str, str]]:
    """The words and the environment that start a script (see `call`) in a process of its own, without a network."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    start = ["-m", script] if script.startswith("lab.") else [str(_path(script))]
    return [sys.executable, *start, *words_of(flags)], environment


def call_process(script: str, **flags) -> Result:
    """Runs a script in a process of its own."""
    words, environment = process(script, **flags)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    return Result(done.returncode, done.stdout, done.stderr)


def _path(script: str) -> Path:
    return ROOT / f"{script.replace('.', '/')}.py" if script.startswith("lab.") else ROOT / "scripts" / script


def contents(*folders: Path) -> dict[str, bytes | None]:
    """Every file below the folders with its bytes, and every folder with None."""
    found = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


def write_rows(path: Path, rows: Iterable) -> Path:
    """`rows` (dicts, or records with `to_dict`) as a JSONL file."""
    dicts = [row if isinstance(row, dict) else row.to_dict() for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in dicts), encoding="utf-8")
    return path


def read_rows(path: Path) -> list[dict]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
