"""The process around a `main`: quiet libraries, CPU threads that share cores, nothing secret in what it prints, and its
end after distributed work."""

from __future__ import annotations

import atexit
import contextlib
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

from sweet_rl.redaction import redacted

SPINS = "10000"  # of libgomp, whose default is 300,000


def share_cores() -> None:
    """Let waiting OpenMP threads give up their core soon. Call before torch is imported; the environment wins.

    With the default, waiting threads keep their core busy, so that two small models that are trained side by side
    can take many times as long. One model alone is as fast with this setting.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def quiet_libraries() -> None:
    """Leave out messages that a user can do nothing about. Call before the libraries are imported.

    These are FutureWarning; DeepSpeed's note that there is no GPU; transformers' report that a plain model has no
    place for a value head; and, in a file or a pipe, the libraries' own progress bars for loading and saving.
    Settings of the environment and of `python -W` are kept.
    """
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' bars too
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)
    logging.getLogger("DeepSpeed").addFilter(_says_more_than_no_gpu)
    logging.getLogger("transformers.modeling_utils").addFilter(_says_more_than_value_head)


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


def _says_more_than_no_gpu(record: logging.LogRecord) -> bool:
    return "Setting accelerator to CPU" not in record.getMessage()


def _says_more_than_value_head(record: logging.LogRecord) -> bool:
    """Whether it is not a load report, or one of other keys than those of a value head."""
    heading, _, table = record.getMessage().partition("\n")
    keys = [line.split("|")[0].strip() for line in table.splitlines()[2:] if "|" in line]
    return "LOAD REPORT" not in heading or not all(key.startswith("value_head.") for key in keys)


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
    """Take secrets out of log records and tracebacks from now on."""
    logging.setLogRecordFactory(_redacted_record)
    sys.excepthook = _print_redacted
    threading.excepthook = lambda found: _print_redacted(found.exc_type, found.exc_value, found.exc_traceback)


def _redacted_record(*arguments: Any, **named: Any) -> logging.LogRecord:
    record = logging.LogRecord(*arguments, **named)
    with contextlib.suppress(TypeError, ValueError):  # of values that do not fit the text, which logging reports
        record.msg, record.args = redacted(record.getMessage()), None
    if record.exc_info and record.exc_info[0]:
        record.exc_text = redacted("".join(traceback.format_exception(*record.exc_info)).rstrip())
    return record


def _print_redacted(*error: Any) -> None:
    print(redacted("".join(traceback.format_exception(*error))), end="", file=sys.stderr)
