"""Errors for the user. Scripts print their message without a traceback and exit with status 2."""


class UserError(Exception):
    """Invalid input, settings or environment. Its message says what was found, where, and what to do."""


def first_line(error: Exception) -> str:
    """The first line of an error of a library, for the message of a UserError."""
    return str(error).strip().partition("\n")[0]


class RecordError(UserError):
    """A file of records that cannot be used. Its message names the file, the line, the field and the remedy."""
