"""The leak check: whether a human's reply gives the reference solution away. `base.py` asks again after a leak.

Backend (`gives_away`): a leak is code of the reference that the agent was not shown: eight tokens in a row, or a whole
statement of at least five tokens. At least two of the tokens have to be operators or brackets, so that plain language
about the same names and numbers is no leak. Not found: code with changed names, and code described in words.
Frontend (`holds_markup`): a leak is any HTML, because such a reply builds the page for the agent.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

RUN = 8  # tokens
STATEMENT = 5  # tokens
SYMBOLS = 2  # operators or brackets among them
_MARKUP = re.compile(
    r"</[a-z][a-z0-9]*\s*>|<(?:!doctype|a|body|button|div|footer|form|h[1-6]|head|header|html|img|input|li|link|main|nav"
    r"|p|section|span|style|table|td|tr|ul)\b[^<>]*>|\b(?:class|style|href|src)\s*=\s*[\"']|```",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|[^\w\s]")


def gives_away(reply: str, ground_truth: str, public: str) -> bool:
    """Whether `reply` shares code with `ground_truth` that is not in `public`, the text that the agent was shown."""
    runs, statements = _signs(ground_truth)
    tokens = _tokens(_without_quotation_marks(reply))
    shared_runs = {run for run in _runs(tokens, RUN) if run in runs}
    shared_statements = [statement for statement in statements if _contains(tokens, statement)]
    if not shared_runs and not shared_statements:
        return False
    shown = _tokens(public)
    if shared_runs and not shared_runs <= set(_runs(shown, RUN)):
        return True
    return any(not _contains(shown, statement) for statement in shared_statements)


def holds_markup(text: str) -> bool:
    """Whether a reply holds HTML, attributes or a code fence: such a reply builds the page for the agent."""
    return _MARKUP.search(text) is not None


@lru_cache(maxsize=4096)
def _signs(ground_truth: str) -> tuple[frozenset, tuple]:
    """The token runs and the whole statements of the reference that count as leaked when repeated."""
    code = _code_only(ground_truth)
    runs = frozenset(run for run in _runs(_tokens(code), RUN) if _is_code(run))
    lines = {tuple(_tokens(line)) for line in code.splitlines()}
    return runs, tuple(line for line in lines if len(line) >= STATEMENT and _is_code(line))


def _code_only(source: str) -> str:
    """The source without comments and docstrings, which are plain language, and without signatures."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return "\n".join(line for line in re.sub(r"#.*", "", source).splitlines() if not _is_signature(line))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [one for one in body if not _is_text(one)]
    return "\n".join(line for line in ast.unparse(tree).splitlines() if not _is_signature(line))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_signature(line: str) -> bool:
    return line.lstrip().startswith(("def ", "async def "))


def _without_quotation_marks(reply: str) -> str:
    """The reply without quotation marks and code ticks, which stand around words and are no code."""
    return re.sub(r"[`“”‘’]", " ", reply)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.replace('"', "'"))


def _runs(tokens: list[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[start : start + length]) for start in range(len(tokens) - length + 1)]


def _is_code(tokens: tuple[str, ...]) -> bool:
    """Whether enough tokens are operators or brackets. Commas, full stops and quotation marks do not count."""
    return sum(not token[0].isalnum() and token not in "_,.'" for token in tokens) >= SYMBOLS


def _contains(tokens: list[str], run: tuple[str, ...]) -> bool:
    size = len(run)
    return any(tuple(tokens[start : start + size]) == run for start in range(len(tokens) - size + 1))
