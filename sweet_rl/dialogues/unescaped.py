"""HTML with its character references resolved, as often as pages inside attributes of pages do it."""

import html
from collections.abc import Callable, Iterator

ROUNDS = 8  # a page inside a page inside a page ...


def unescaped(text: str, resolve: Callable[[str], str] = html.unescape) -> Iterator[str]:
    """Yield the text, the text resolved once, twice, ... until nothing changes.

    Raises:
        ValueError: References are nested more deeply than ROUNDS, or one has thousands of digits.
    """
    for _ in range(ROUNDS):
        yield text
        plain = resolve(text)
        if plain == text:
            return
        text = plain
    raise ValueError("character references are nested too deeply")
