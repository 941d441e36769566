"""Errors for the user, and of single items. Scripts print the message of a UserError and exit with its status."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
SENT = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY")
"""Variables with keys that libraries of this process send by themselves."""

_keys: set[str] = set()


def register_key(key: str) -> None:
    """From now on hide this key in errors and manifests; those of `SENT` are always hidden."""
    _keys.add(key)


def masked(text: str) -> str:
    """The text with *** for each key of at least 6 characters, and with addresses without user and password."""
    for key in sorted(_keys | {os.environ.get(name, "").strip() for name in SENT}, key=len, reverse=True):
        text = text.replace(key, "***") if len(key) >= 6 else text  # shorter ones stand for "no key": none, EMPTY
    return re.sub(r"://[^/\s@\"]+@", "://", text)


def printable(text: str) -> str:
    r"""The text with the characters that steer a terminal as escapes (`\x1b`); its lines stay lines."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text)


class UserError(Exception):
    """Invalid input, settings or environment. Its message says what was found, where, and what to do."""

    exit_status = 2

    def __init__(self, message: str) -> None:
        super().__init__(printable(masked(message)))


class NothingMade(UserError):
    """A step that ran but has no output that another step can use, or figures of too few items."""

    exit_status = 1


def first_line(error: Exception) -> str:
    """The first line of an error of a library, with its type unless it is an OSError or a ValueError."""
    line = str(error).strip().partition("\n")[0]
    return line if line and isinstance(error, OSError | ValueError) else f"{type(error).__name__} {line}".strip()


@contextlib.contextmanager
def read_by_library(named: Callable[[Exception], UserError]) -> Iterator[None]:
    """Turn whatever a library raises inside, where it reads a user's file, into a UserError.

    Libraries promise no types of errors for files that are damaged or hold something else.

    Args:
        named: Function from the library's error to that of the user.
    """
    try:
        yield
    except (UserError, ModuleNotFoundError):  # the second: a package of an extra (cli.run)
        raise
    except Exception as error:
        raise named(error) from error


class RecordError(UserError):
    """A file of records that cannot be used. Its message names the file, the line, the field and the remedy."""


class ItemError(Exception):
    """One item of a step could not be done; the step goes on with the others (runs/step.py).

    Attributes:
        kind: One word, counted in summaries.
        retryable: Whether the same work may succeed later.
        fatal: Reason for which every other item would fail too, as a sentence; None if others may succeed.
    """

    def __init__(self, kind: str, message: str, retryable: bool = False, fatal: str | None = None) -> None:
        super().__init__(masked(message))
        self.kind, self.retryable, self.fatal = kind, retryable, fatal
