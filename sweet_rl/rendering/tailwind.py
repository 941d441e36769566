"""Tailwind CSS as the services on the network serve it, from files of the package.

The stylesheet is cut to the rules that can apply to a page, because all 2.9 MB take a browser 0.3 s.
"""

import lzma
import re
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from sweet_rl.rendering.scripts import may_run_scripts, resolved

FILES = Path(__file__).parent / "files"
PLUGINS = ("aspect-ratio", "container-queries", "forms", "typography")

# A rule, or a block of rules (in Tailwind 2 a block holds at most one more level of blocks).
_RULE = re.compile(
    r"(?P<head>[^{}]+)\{(?:(?P<inner>(?:[^{}]+\{(?:[^{}]+\{[^{}]*\})+\}|[^{}]+\{[^{}]*\})+)|[^{}]*)\}",
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CLASS = re.compile(r"\.((?:\\[0-9a-fA-F]{1,6}\s?|\\.|[-\w])+)")
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?|\\(.)")
# Characters around a class in HTML and in scripts; no class of Tailwind 2 contains any of them.
_BOUNDARY = re.compile(r"""[\s"'`=<>;]+""")


@dataclass(frozen=True)
class _Rule:
    text: str  # of a block "@media (min-width:640px)"
    classes: frozenset[str]  # the first class of each selector; none: the rule is always kept
    inner: tuple["_Rule", ...] = ()  # of a block


def is_stylesheet(host: str, path: str) -> bool:
    """Whether an address is that of Tailwind 2's stylesheet on one of the services that serve npm packages."""
    path = unquote(path)
    if host in ("cdn.jsdelivr.net", "unpkg.com"):
        path = path.removeprefix("/npm")
        return bool(re.fullmatch(r"/tailwindcss@[\^~]?2(\.[0-9.x*]+)?/dist/tailwind(\.min)?\.css", path))
    if host == "cdnjs.cloudflare.com":
        return bool(re.fullmatch(r"/ajax/libs/tailwindcss/2[0-9.]+/tailwind(\.min)?\.css", path))
    return False


@lru_cache(maxsize=1)
def stylesheet() -> bytes:
    """`dist/tailwind.min.css` of tailwindcss 2.2.19 as published on npm."""
    return lzma.decompress((FILES / "tailwind-2.2.19.min.css.xz").read_bytes())


def stylesheet_for(page: str) -> bytes:
    """The stylesheet without the rules that cannot apply to `page`: each of their selectors needs a class that the
    page does not name. All of it if the page may run scripts, which may compose such a name."""
    if may_run_scripts(page) or "integrity" in page.lower():  # a checksum is that of the whole file
        return stylesheet()
    names = frozenset(_BOUNDARY.split(resolved(page)))  # in lower case: without a doctype classes match in any case
    return _cut(_rules(), names).encode()


@lru_cache(maxsize=8)
def play_script(plugins: str) -> bytes:
    """Tailwind 3.4.10's play script with the plugins of an address ("forms,typography"); if several, with all."""
    names = {name for name in plugins.split(",") if name in PLUGINS}
    suffix = "" if not names else f"-with-{names.pop()}" if len(names) == 1 else "-with-all-plugins"
    with tarfile.open(FILES / "tailwindcss-cdn-3.4.10.tar.xz") as archive:
        script = archive.extractfile(f"tailwindcss{suffix}.js")
        assert script is not None  # a regular file of our own archive
        return script.read()


def _cut(rules: tuple[_Rule, ...], names: frozenset[str]) -> str:
    kept = []
    for rule in rules:
        if rule.inner:
            if inner := _cut(rule.inner, names):
                kept.append(f"{rule.text}{{{inner}}}")
        elif not rule.classes or not rule.classes.isdisjoint(names):
            kept.append(rule.text)
    return "".join(kept)


@lru_cache(maxsize=1)
def _rules() -> tuple[_Rule, ...]:
    return tuple(map(_rule, _RULE.finditer(stylesheet().decode())))


def _rule(found: re.Match) -> _Rule:
    head = found["head"]
    if head.startswith("@media"):
        return _Rule(head, frozenset(), tuple(map(_rule, _RULE.finditer(found["inner"]))))
    if head.startswith("@"):
        return _Rule(found[0], frozenset())
    firsts = [_CLASS.search(selector) for selector in _COMMENT.sub("", head).split(",")]
    if not all(firsts):
        return _Rule(found[0], frozenset())
    return _Rule(found[0], frozenset(_plain(first[1]) for first in firsts if first))


def _plain(name: str) -> str:
    """A class as HTML writes it, in lower case, from its escaped form in CSS."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], name).lower()
