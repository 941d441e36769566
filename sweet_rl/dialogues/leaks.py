"""The leak check: whether a human's reply gives the reference solution away. `base.py` asks again after a leak.

Backend (`gives_away`): a leak is code of the reference that the agent was not shown: eight tokens in a row, a whole
statement of at least five tokens, or the whole solution if it has at least four. At least two of the tokens have to be
operators or brackets unless it is the whole solution, so that plain language about the same names and numbers is no
leak. The code is compared as it is written and as Python would write it, each with and without parentheses; spaces,
line breaks, capitals, comments, kinds of quotation marks, full-width signs, escapes for HTML and markup around words
(backticks, stars, underscores, tags) do not matter. Not found: code with
changed names, code described in words, and single lines that are shorter. `benchmarks/leaks.py` measures both errors.
Frontend (`holds_markup`): a leak is any HTML, because such a reply builds the page for the agent.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from sweet_rl.dialogues.unescaped import unescaped

RUN = 8  # tokens
STATEMENT = 5  # tokens
SOLUTION = 4  # tokens
SYMBOLS = 2  # operators or brackets among them
_MARKUP = re.compile(
    r"</[a-z][a-z0-9]*\s*>|<(?:!doctype|a|body|button|div|footer|form|h[1-6]|head|header|html|img|input|li|link|main|nav"
    r"|p|section|span|style|table|td|tr|ul)\b[^<>]*>|\b(?:class|style|href|src)\s*=\s*[\"']|```",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|[^\w\s]")
_KEYWORDS = ("return", "raise", "continue", "break", "else", "elif")
_MARGIN = re.compile(r"^[ \t]*(?:\d+[.:)|]|>)[ \t]", re.MULTILINE)  # the number of a line, the mark of a quotation
_MARKS = re.compile(r"[`“”‘’;]")  # around words and between statements
_MARKED = (  # words in bold, italics or struck out, and tags; also what only looks like it, as in `a *b* c`
    re.compile(r"(\*{1,3})(\w+)\1"),
    re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*\n]+)(?<=\S)\1(?![\w*])"),
    re.compile(r"(?<!\w)(__?)([^\W_](?:\w*[^\W_])?)\1(?!\w)"),
    re.compile(r"(~~)([^~\n]+)\1"),
    re.compile(r"()()</?[a-z][a-z0-9]*(?:[\s/][^<>]*)?>", re.IGNORECASE),
)
_INVISIBLE = re.compile(r"[\\\u00ad\u200b-\u200f\u2060\ufeff]")  # in words; a backslash escapes them in markdown


def gives_away(reply: str, ground_truth: str, public: str) -> bool:
    """Whether `reply` shares code with `ground_truth` that is not in `public`, the text that the agent was shown."""
    for parentheses in (True, False):
        signs = _signs(ground_truth, parentheses)
        found = _found(signs, reply, parentheses)
        if found and found - _found(signs, public, parentheses):
            return True
    return False


def holds_markup(text: str) -> bool:
    """Whether a reply holds HTML, attributes or a code fence: such a reply builds the page for the agent."""
    return _MARKUP.search(text) is not None


@lru_cache(maxsize=4096)
def _signs(ground_truth: str, parentheses: bool) -> dict[int, frozenset[tuple[str, ...]]]:
    """The token sequences of the reference that count as leaked when repeated, by their length."""
    signs: set[tuple[str, ...]] = set()
    for source in _spellings(ground_truth):
        statements = [_weighed(words, parentheses) for words in _statements(source)]
        code = [token for statement in statements for token in statement]
        sequences = [*_runs(code, RUN), *(one for one in statements if len(one) >= STATEMENT)]
        signs.update(_text(one) for one in sequences if _is_code(one, parentheses))
        if parentheses and len(code) >= SOLUTION:
            signs.add(_text(code))
    return {length: frozenset(one for one in signs if len(one) == length) for length in {len(one) for one in signs}}


def _found(signs: dict[int, frozenset[tuple[str, ...]]], text: str, parentheses: bool) -> set[tuple[str, ...]]:
    found = set()
    for reading in _readings(text):
        tokens = _tokens(reading, parentheses)
        found |= {run for length, known in signs.items() for run in map(tuple, _runs(tokens, length)) if run in known}
    return found


def _readings(text: str) -> set[str]:
    """The text as it is, and without markup around words: a star may be a product or a mark."""
    text = plain = _unescaped(text)
    for marked in _MARKED:
        plain = marked.sub(r" \2 ", plain)
    return {text, plain}


def _unescaped(text: str) -> str:
    """The text in ordinary signs."""
    plain = text
    with contextlib.suppress(ValueError):  # what is escaped too often, or by a number too long, stays as it is
        for step in unescaped(text):
            plain = step
    return unicodedata.normalize("NFKC", plain)


def _spellings(source: str) -> Iterator[str]:
    """The source, and how Python writes the same code, if it is code."""
    yield source
    try:
        yield ast.unparse(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError):
        return


def _statements(source: str) -> list[list[str]]:
    """The words of each statement. Comments and docstrings, which are plain language, and signatures are left out."""
    statements: list[list[str]] = [[]]
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NEWLINE:
                statements.append([])
            elif token.type != tokenize.COMMENT and token.string.strip():
                statements[-1].append(token.string)
    except (tokenize.TokenError, SyntaxError):  # no Python: its lines
        statements = [line.split() for line in re.sub(r"#.*", "", source).splitlines()]
    found = map(_without_signature, statements)
    return [words for words in found if len(words) > 1 or not "".join(words).endswith(("'", '"'))]


def _without_signature(words: list[str]) -> list[str]:
    """What stands behind the signature in a line that begins with one."""
    if "def" not in words[:2]:
        return words
    depth = 0
    for place, word in enumerate(words):
        depth += sum(map(word.count, "([{")) - sum(map(word.count, ")]}"))
        if word.endswith(":") and depth == 0:
            return words[place + 1 :]
    return []


def _weighed(words: list[str], parentheses: bool) -> list[tuple[str, bool]]:
    """The tokens of a statement, each with whether it is a sign of code: an operator or bracket outside of texts."""
    return [
        (token, not (token[0].isalnum() or token in "_,.'" or word[0] in "'\""))
        for word in words
        for token in _tokens(word, parentheses)
    ]


def _is_code(tokens: Sequence[tuple[str, bool]], parentheses: bool) -> bool:
    """Whether a sequence holds enough signs of code that plain language about the same names and numbers has not.

    One is enough for a long sequence that has been stripped of its parentheses. A keyword that begins a statement after
    a colon is one, too.
    """
    signs = sum(sign for _, sign in tokens)
    signs += any(one == ":" and two in _KEYWORDS for (one, _), (two, _) in pairwise(tokens))
    operators = sum(sign and token not in ":[]{}" for token, sign in tokens)
    return signs >= SYMBOLS or (not parentheses and operators > 0 and len(tokens) >= RUN)


def _text(tokens: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
    return tuple(token for token, _ in tokens)


def _tokens(text: str, parentheses: bool) -> list[str]:
    text = _MARGIN.sub(" ", _INVISIBLE.sub("", _unescaped(text)))
    text = _MARKS.sub(" ", text).replace('"', "'").casefold()
    return [token for token in _TOKEN.findall(text) if parentheses or token not in "()"]


def _runs(tokens: Sequence[Any], length: int) -> Iterator[Sequence[Any]]:
    return (tokens[start : start + length] for start in range(len(tokens) - length + 1))
