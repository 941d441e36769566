"""Tables in Markdown without the spaces that align their columns."""

import re


def unpadded(table: str) -> str:
    """The table with one space beside each cell; an empty cell is `| |`."""
    return re.sub(" {2,}", " ", table)
