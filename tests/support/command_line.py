"""The scripts' command lines, called in this process or in one of their own, killed, and what they leave on disk."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import socket
import sys
import time
from collections.abc import Callable, Iterable
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
    ("lab.overview.overview").
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


def check_call(script: str, *words: str, **flags) -> str:
    """Like `call`, for a script that must end well; what it prints."""
    done = call(script, *words, **flags)
    assert done.code == 0, f"{script}: {done.out}\n{done.err}"
    return done.out


def process(script: str, **flags) -> tuple[list[str], dict[str, str]]:
    """The words and the environment that start a script (see `call`) in a process of its own, without a network."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    start = ["-m", script] if script.startswith("lab.") else [str(_path(script))]
    return [sys.executable, *start, *words_of(flags)], environment


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def kill_when(holds: Callable[[], bool], script: str, **flags) -> None:
    """Start a script in a process that is forked from a warm one and leads a session; SIGKILL it once `holds()`."""
    from tests.support.warm_processes import warm_context

    context = warm_context()
    running = context.Process(target=_lead_a_session, args=(str(_path(script)), words_of(flags), {**os.environ}))
    running.start()
    until = time.monotonic() + 240
    try:
        while not holds():
            assert running.exitcode is None, "it ended before it could be killed"
            assert time.monotonic() < until, "it did not come so far"
            time.sleep(0.002)
    finally:
        running.kill()
        running.join()
    until = time.monotonic() + 60
    while alive := _alive_in_session(running.pid):
        assert time.monotonic() < until, f"children outlive the killed script: {alive}"
        time.sleep(0.02)


def _lead_a_session(path: str, words: list[str], environment: dict[str, str]) -> None:
    os.setsid()
    os.environ.update(environment)  # the warm process may be older than what the test has set
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.argv = [path, *words]
    runpy.run_path(path, run_name="__main__")


def _alive_in_session(leader: int) -> list[int]:
    """Processes of the session that a killed script led; only where there is /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state != "Z":
            found.append(int(folder.name))
    return found


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


def count_rows(path: Path) -> int:
    """How many lines of a file are whole; 0 before it exists."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def read_rows(path: Path) -> list[dict]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]  # text would split at U+2028 too
