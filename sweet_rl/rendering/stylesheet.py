"""Tailwind 2's stylesheet, cut to the rules that can apply to a page.

All 2.9 MB of rules take a browser 0.3 s, the cut ones a few ms. A rule is left out only if each of its selectors needs
a class that no element of the page can have; the others keep their order, so the computed styles are the same. This
holds for pages whose scripts do not run.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sweet_rl.rendering import fetch
from sweet_rl.rendering.unescaped import unescaped

# Characters around a class in HTML; no class of Tailwind 2 contains any of them.
_BOUNDARY = re.compile(r"""[\s"'=<>`;]+""")
_CLASS = re.compile(r"\.((?:\\[0-9a-fA-F]{1,6}\s?|\\.|[-\w])+)")
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?|\\(.)")


@dataclass(frozen=True)
class _Rule:
    text: str
    blocks: tuple[str, ...]  # the "@media (min-width:640px)" around it, outermost first
    alternatives: tuple[frozenset[str], ...]  # per selector the classes it needs


def stylesheet() -> bytes:
    """`dist/tailwind.min.css` of tailwindcss 2.2.19 as published on npm."""
    return fetch.read("tailwind.min.css")


def stylesheet_for(page: str) -> bytes:
    """The stylesheet without the rules that cannot apply to `page` (HTML whose scripts do not run)."""
    present = possible_classes(page)
    if present is None or "integrity" in page.lower():
        return stylesheet()  # a checksum is that of the whole file
    rules, always, by_class = _index()
    kept = set(always)
    for name in present:
        for number in by_class.get(name, ()):
            if number not in kept and any(needed <= present for needed in rules[number].alternatives):
                kept.add(number)
    return _to_css([rules[number] for number in sorted(kept)]).encode()


def possible_classes(page: str) -> set[str] | None:
    """A superset, in lower case, of the classes of Tailwind that elements of `page` can have.

    None if the page nests character references so deeply, or has one so long, that this cannot be determined.
    """
    found: set[str] = set()
    try:
        # Pages without a doctype match classes in any case.
        for text in unescaped(page.lower(), lambda text: html.unescape(text).lower()):
            found.update(_BOUNDARY.split(text))
    except ValueError:
        return None
    return found


def _to_css(rules: list[_Rule]) -> str:
    pieces: list[str] = []
    open_blocks: tuple[str, ...] = ()
    for rule in rules:
        if rule.blocks != open_blocks:
            shared = 0
            while open_blocks[: shared + 1] == rule.blocks[: shared + 1] and shared < len(open_blocks):
                shared += 1
            pieces.append("}" * (len(open_blocks) - shared))
            pieces.extend(f"{head}{{" for head in rule.blocks[shared:])
            open_blocks = rule.blocks
        pieces.append(rule.text)
    return "".join(pieces) + "}" * len(open_blocks)


@lru_cache(maxsize=1)
def _index() -> tuple[list[_Rule], list[int], dict[str, list[int]]]:
    rules = list(_rules(stylesheet().decode()))
    always = [number for number, rule in enumerate(rules) if not all(rule.alternatives)]
    by_class: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        for name in {min(needed) for needed in rule.alternatives if needed}:
            by_class.setdefault(name, []).append(number)
    return rules, always, by_class


def _rules(css: str, blocks: tuple[str, ...] = ()) -> Iterator[_Rule]:
    place = 0
    while (opening := css.find("{", place)) >= 0:
        head = css[place:opening]
        if head.startswith(("@media", "@supports")):
            closing = _closing(css, opening)
            yield from _rules(css[opening + 1 : closing], (*blocks, head))
        elif head.lstrip().startswith("@"):
            closing = _closing(css, opening)
            yield _Rule(css[place : closing + 1], blocks, (frozenset(),))
        else:
            closing = css.index("}", opening)
            yield _Rule(css[place : closing + 1], blocks, tuple(_needed(selector) for selector in _selectors(head)))
        place = closing + 1


def _closing(css: str, opening: int) -> int:
    depth = 0
    for found in re.compile("[{}]").finditer(css, opening):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    raise ValueError("a block of the stylesheet does not end")


def _selectors(head: str) -> list[str]:
    """The selectors of a rule's head (Tailwind's never hold a comma inside)."""
    return re.sub(r"/\*.*?\*/", "", head, flags=re.DOTALL).split(",")


def _needed(selector: str) -> frozenset[str]:
    """The classes, in lower case, that elements must have for the selector to match."""
    while (shorter := re.sub(r":(?:not|is|where|has)\([^()]*\)", "", selector)) != selector:
        selector = shorter
    return frozenset(
        _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], name).lower()
        for name in _CLASS.findall(selector)
    )
