"""The leak check: whether a human's reply gives the reference solution away, so that it is asked for again.

Backend (`gives_away`): a leak is code of the reference that the agent was not shown: eight tokens in a row, a whole
statement of at least five tokens, two of them operators or brackets (so that plain words about the same names are no
leak), or the whole solution. The code is compared as it is written and as Python would write it. Spaces, line breaks,
capitals, comments, kinds of quotation marks, backticks, numbers of lines, full-width signs and escapes of HTML and
Markdown do not matter. Not found: code with changed names, without its parentheses or with each word in bold or in a
tag, code described in words, and single lines that are shorter.
Frontend (`holds_markup`): a leak is any HTML, because such a reply builds the page for the agent.
"""

from __future__ import annotations

import ast
import html
import io
import re
import tokenize
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

RUN, STATEMENT, SOLUTION, SYMBOLS = 8, 5, 4, 2  # tokens; operators or brackets among them
_MARKUP = re.compile(
    r"</[a-z][a-z0-9]*\s*>|<(?:!doctype|a|body|button|div|footer|form|h[1-6]|head|header|html|img|input|li|link|main|nav"
    r"|p|section|span|style|table|td|tr|ul)\b[^<>]*>|\b(?:class|style|href|src)\s*=\s*[\"']|```",
    re.IGNORECASE,
)
_KEYWORDS = ("return", "raise", "elif")
_TOKEN = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|[^\w\s]")
_MARGIN = re.compile(r"^[ \t]*(?:\d+[.:)|]|>)[ \t]", re.MULTILINE)  # the number of a line, the mark of a quotation
_LEFT_OUT = re.compile(r"[\\\u00ad\u200b-\u200f\u2060\ufeff]")  # characters without width; backslashes of Markdown
_MARKS = re.compile(r"[`“”‘’;]")  # each counts as a space


def gives_away(reply: str, ground_truth: str, public: str) -> bool:
    """Whether `reply` shares code with `ground_truth` that is not in `public`, the text that the agent was shown."""
    said, shown = f" {' '.join(_tokens(reply))} ", f" {' '.join(_tokens(public))} "
    return any(code in said and code not in shown for code in _code(ground_truth))


def holds_markup(text: str) -> bool:
    """Whether a reply holds HTML, attributes or a code fence: such a reply builds the page for the agent."""
    return _MARKUP.search(text) is not None


@lru_cache(maxsize=4096)
def _code(ground_truth: str) -> frozenset[str]:
    """The sequences of tokens that a reply must not hold, each as one text."""
    runs: list[list[tuple[str, bool]]] = []
    for source in _spellings(ground_truth):
        statements = list(_statements(source))
        tokens = [token for statement in statements for token in statement]
        runs += [tokens[start : start + RUN] for start in range(len(tokens) - RUN + 1)]
        # The first word of a statement is no symbol, because `return` is also a word of plain language.
        runs += [[(one[0][0], False), *one[1:]] for one in statements if len(one) >= STATEMENT]
        if len(tokens) >= SOLUTION:
            runs.append([(token, True) for token, _ in tokens])
    code = (run for run in runs if sum(is_symbol for _, is_symbol in run) >= SYMBOLS)
    return frozenset(f" {' '.join(token for token, _ in run)} " for run in code)


def _spellings(source: str) -> Iterator[str]:
    """The source; if it is Python, also as `ast.unparse` writes it."""
    yield source
    try:
        yield ast.unparse(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError):
        return


def _statements(source: str) -> Iterator[list[tuple[str, bool]]]:
    """The tokens of each statement, each with whether it is an operator, a bracket or a keyword outside of texts.

    Comments, docstrings and signatures are left out: they are plain language, or public.
    """
    lines: list[list[str]] = [[]]
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NEWLINE:
                lines.append([])
            elif token.type != tokenize.COMMENT and token.string.strip():
                lines[-1].append(token.string)
    except (tokenize.TokenError, SyntaxError):  # no Python: each line is a statement
        lines = [re.sub(r"#.*", "", line).split() for line in source.splitlines()]
    for words in map(_without_signature, lines):
        if len(words) > 1 or not "".join(words).endswith(("'", '"')):
            yield [
                (token, token in _KEYWORDS or not (token[0].isalnum() or token in "_,.'" or word[0] in "'\""))
                for word in words
                for token in _tokens(word)
            ]


def _without_signature(words: list[str]) -> list[str]:
    """The words of a statement after the signature of a function, if it begins with one."""
    if "def" not in words[:2]:
        return words
    for place, word in enumerate(words):
        if word == ":" and (words[place - 1] == ")" or "->" in words[:place]):
            return words[place + 1 :]
    return []


def _tokens(text: str) -> list[str]:
    try:
        text = html.unescape(text)
    except ValueError:  # a number of thousands of digits
        pass
    text = _MARGIN.sub(" ", _LEFT_OUT.sub("", unicodedata.normalize("NFKC", text)))
    return _TOKEN.findall(_MARKS.sub(" ", text).replace('"', "'").casefold())
