"""Errors for the user, and of single items. Scripts print the message of a UserError and exit with its status.

No message holds a key or the password of an address (`redaction.py`).
"""

from sweet_rl.redaction import redacted


class UserError(Exception):
    """Invalid input, settings or environment. Its message says what was found, where, and what to do."""

    exit_status = 2

    def __init__(self, message: str) -> None:
        super().__init__(redacted(message))


class NothingMade(UserError):
    """A step that ran and gave nothing that another step could use. Its output stays unfinished."""

    exit_status = 1


def first_line(error: Exception) -> str:
    """The first line of an error of a library, for the message of a UserError."""
    return str(error).strip().partition("\n")[0]


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
