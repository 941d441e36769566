"""Text search over many dialogues without holding them: lower-case texts in one temporary file, read in blocks."""

from __future__ import annotations

import os
import re
import tempfile
from bisect import bisect_right
from collections.abc import Sequence

BLOCK = 1 << 22
_WORDS = re.compile(r'"([^"]+)"|(\S+)')


class SearchText:
    """The texts of entries 0, 1, ..., added in order; finds the entries that hold every word of a query.

    Case is ignored; words in double quotes are one phrase; a word is found inside other words too.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="sweet_rl_search_")
        self._starts: list[int] = []
        self._end = 0

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, texts: Sequence[str]) -> None:
        """The next entry's texts. A phrase does not reach from one of them into another."""
        data = "\n\x00".join(texts).casefold().encode("utf-8", "surrogatepass") + b"\xff"
        self._file.seek(self._end)
        self._file.write(data)
        self._starts.append(self._end)
        self._end += len(data)

    def find(self, query: str) -> list[int]:
        """The entries that hold all words of `query`, in order; every entry for an empty one."""
        count, end = len(self._starts), self._end
        found = set(range(count))
        for word in words_of(query):
            found &= self._holding(word.encode("utf-8", "surrogatepass"), count, end)
        return sorted(found)

    def close(self) -> None:
        """Gives up the temporary file."""
        self._file.close()

    def _holding(self, needle: bytes, count: int, end: int) -> set[int]:
        """Block by block; a block is read as far as the last entry that begins in it goes."""
        self._file.flush()
        found: set[int] = set()
        first = 0
        while first < count:
            start = self._starts[first]
            last = bisect_right(self._starts, start + BLOCK, first, count)
            stop = self._starts[last] if last < count else end
            block = os.pread(self._file.fileno(), stop - start, start)
            place = block.find(needle)
            while place >= 0:
                entry = bisect_right(self._starts, start + place, first, last) - 1
                found.add(entry)
                following = self._starts[entry + 1] - start if entry + 1 < last else len(block)
                place = block.find(needle, following)
            first = last
        return found


def words_of(query: str) -> list[str]:
    """The words and quoted phrases of a query, case folded."""
    return [(phrase or word).casefold() for phrase, word in _WORDS.findall(query)]
