"""Errors for the user. Scripts print their message without a traceback and exit with status 2."""


class UserError(Exception):
    """Invalid input, settings or environment. Its message says what was found, where, and what to do."""


class RecordError(UserError):
    """A file of records that cannot be used. Its message names the file, the line, the field and the remedy."""
