"""What a person did that cannot work, said in one message."""


class UserError(Exception):
    """A bad input or setting. Its text is the whole message shown: what was found, where, what to do."""


class RecordError(UserError):
    """A file of records that cannot be used as it is: names the file, the line, the field and the remedy."""
