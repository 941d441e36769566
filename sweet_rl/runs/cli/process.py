"""The process around a `main`: its environment, its command line, nothing secret in what it prints, and its end after
distributed work."""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import os
import re
import shlex
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from sweet_rl.runs.printable import printable
from sweet_rl.runs.redaction import redacted


def set_environment() -> None:
    """Set what libraries read when they are imported. Settings of the environment and of `python -W` are kept."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)  # between libraries; a user can do nothing about them
    if not sys.stderr.isatty():  # progress of long work is in `progress.py`; these write a line for every update
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' bars too
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    for stream in (sys.stdout, sys.stderr):  # a path of other bytes, or a terminal that knows ASCII only
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Waiting OpenMP threads give up their core soon. By default they keep it, so that two trainings side by side take
    # many times as long.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def leave_process_group() -> None:
    """End a command that ran in several processes and succeeded, without tearing the interpreter down.

    A thread of gloo may still need the interpreter to drop a tensor; during its teardown the thread aborts the
    process (pytorch/pytorch#179291). Not called after an error: leaving the group would wait for the others.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    distributed.destroy_process_group()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


_command_line: list[str] = []  # of this process, noted by `run`


def note_command_line(script: str, words: Sequence[str]) -> None:
    """Note the command line of this process, for the manifests of what it writes."""
    _command_line[:] = ["python", script.removeprefix(os.getcwd() + os.sep), *words]


def hide_word(key: str) -> None:
    """Take a key, however short, out of the words of this process: wandb sends them to its service."""
    for words in (sys.argv, _command_line):
        words[:] = [re.sub(rf"(^|=){re.escape(key)}$", r"\1***", word) for word in words]


def command_line() -> str | None:
    """Return the command that runs here, for a shell, without secrets; None outside of `run`."""
    return shlex.join(map(redacted, _command_line)) or None


def redact_output() -> None:
    """Take secrets, and characters that steer a terminal, out of log records and tracebacks from now on."""
    logging.setLogRecordFactory(_redacted_record)
    sys.excepthook = _print_redacted
    threading.excepthook = lambda found: _print_redacted(found.exc_type, found.exc_value, found.exc_traceback)


def _redacted_record(*arguments: Any, **named: Any) -> logging.LogRecord:
    record = logging.LogRecord(*arguments, **named)
    with contextlib.suppress(TypeError, ValueError):  # of values that do not fit the text, which logging reports
        record.msg, record.args = printable(redacted(record.getMessage())), None
    if record.exc_info and record.exc_info[0]:
        record.exc_text = printable(redacted("".join(traceback.format_exception(*record.exc_info)).rstrip()))
    return record


def _print_redacted(*error: Any) -> None:
    print(printable(redacted("".join(traceback.format_exception(*error)))), end="", file=sys.stderr)
