"""Errors for the user, and of single items. Scripts print the message of a UserError and exit with its status.

No message holds a key or the password of an address (`redaction.py`).
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator

from sweet_rl.redaction import redacted

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


class UserError(Exception):
    """Invalid input, settings or environment. Its message says what was found, where, and what to do."""

    exit_status = 2

    def __init__(self, message: str) -> None:
        super().__init__(redacted(message))


class NothingMade(UserError):
    """A step that ran and gave nothing that another step could use. Its output stays unfinished."""

    exit_status = 1


def first_line(error: Exception) -> str:
    """The first line of an error of a library, for the message of a UserError; of odd errors with their type."""
    line = str(error).strip().partition("\n")[0]
    return line if line and isinstance(error, OSError | ValueError) else f"{type(error).__name__} {line}".strip()


def os_error_text(error: OSError) -> str:
    """An error of the operating system for the user: which file, what is wrong, and what to do on a full disk."""
    where = f"{str(error.filename)[:300]}: " if error.filename is not None else ""
    remedy = ". Make room on this disk, then give the same command again" if error.errno in FULL_DISK else ""
    return f"{where}{error.strerror}{remedy}."


@contextlib.contextmanager
def read_by_library(named: Callable[[Exception], UserError]) -> Iterator[None]:
    """Turn whatever a library raises inside, where it reads a user's file, into a UserError.

    Libraries promise no types of errors for files that are damaged or hold something else.

    Args:
        named: Function from the library's error to that of the user.
    """
    try:
        yield
    except UserError:
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
        super().__init__(redacted(message))
        self.kind, self.retryable, self.fatal = kind, retryable, fatal
