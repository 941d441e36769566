"""The fenced blocks of a text, by the rule of CommonMark, for programs and for pages."""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_ANSWER_CHARS = 100_000  # longer answers fail unread; models write some 4,000 tokens
_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)$")
_MAX_NESTED = 3


class Block(NamedTuple):
    """A fenced block: where it starts and ends, fences included, and the text between them."""

    start: int
    end: int
    text: str


def plain_text(text: str) -> str:
    """The text without a byte order mark, with the line ends of Unix."""
    return text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")


def fenced_blocks(text: str) -> list[Block]:
    """The blocks of a text in their order.

    A line of three or more backticks or tildes opens a block; other text may follow them. A line of as many or more of
    the same kind closes it, but not if it is indented by over three columns more, as in a docstring. A block that is
    never closed ends with the text. Unlike in CommonMark, the opening line may be indented as far as the code of a list
    is; the lines of the block lose that indentation.
    """
    blocks: list[Block] = []
    lines: list[str] = []
    mark, indent, start, place = "", "", 0, 0
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        end = place + len(line)
        if not mark:
            if fence and (fence[2][0] == "~" or "`" not in fence[3]):
                indent, mark, start, lines = fence[1], fence[2], place, []
        elif fence and _closes(fence, mark, indent):
            blocks.append(Block(start, end, "\n".join([*lines, ""])))
            mark = ""
        else:
            lines.append(line.removeprefix(indent))
        place = end + 1
    if mark:
        blocks.append(Block(start, len(text), "\n".join([*lines, ""])))
    return blocks


def _closes(fence: re.Match, mark: str, indent: str) -> bool:
    alike = fence[2].startswith(mark) and not fence[3].strip()
    return alike and len(fence[1].expandtabs(4)) <= len(indent.expandtabs(4)) + 3


def texts_of_blocks(text: str, nested: int = 0) -> Iterator[str]:
    """The text of each block; before that of a block of Markdown, the texts of the blocks in it."""
    for block in fenced_blocks(text):
        if nested < _MAX_NESTED and ("```" in block.text or "~~~" in block.text):
            yield from texts_of_blocks(block.text, nested + 1)
        yield block.text
