"""Find the HTML page in a message, and in an answer, in time linear in its length."""

import re
from collections.abc import Iterator

_HTML_TAG = re.compile(r"(?:<!doctype html\b[^<>]*>\s*)?<html\b[^<>]*>|</html\s*>", re.IGNORECASE)
_OPENING = re.compile(r"<!doctype html\b|<html\b|<head\b|<body\b", re.IGNORECASE)
_ELEMENT = re.compile(r"<(?:body|head|div|main|header|section|nav|footer|form|table|h[1-6]|p|style)\b", re.IGNORECASE)
_INSIDE = re.compile(r"<(?!html\b|!doctype\b)[a-z!]", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*```[ \t]*(?:(\w+)[ \t]*)?\r?$")


def extract_page(text: str) -> str | None:
    """The last complete page in a message.

    Returns:
        `<html>` to its `</html>`, with the doctype before it; otherwise the last closed code fence with page elements;
        None if there is neither. An `<html>` without an element in it, as in words about the tags, counts last.
    """
    pages = [text[start:end] for start, end in _whole_pages(text)]
    fenced = [body for name, body in _fenced(text) if name.lower() in ("", "html") and _ELEMENT.search(body)]
    found = [page for page in pages if _INSIDE.search(page)] or fenced or pages
    return found[-1].strip() if found else None


def _fenced(text: str) -> Iterator[tuple[str, str]]:
    """The name and the text of each closed code fence."""
    name = ""
    body: list[str] | None = None
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if body is None:
            if fence:
                name, body = fence[1] or "", []
        elif fence and not fence[1]:
            yield name, "\n".join(body)
            body = None
        else:
            body.append(line)


def answered_page(answer: str | None) -> str | None:
    """The page of an answer.

    Returns:
        A complete page; otherwise a page that a token limit cut off, or elements without `<html>` around them, which
        a browser can draw as well; None if there is nothing to draw.
    """
    if answer is None:
        return None
    page = extract_page(answer)
    if page is not None:
        return page
    opening = _OPENING.search(answer)
    if opening:
        return answer[opening.start() :].partition("\n```")[0].strip()
    bare = answer.strip()
    return bare if bare.startswith("<") and _ELEMENT.match(bare) else None


def without_pages(text: str, mark: str) -> str:
    """The text with `mark` in place of each page, also of one that was cut off."""
    kept, end = [], 0
    for start, stop in _whole_pages(text):
        kept += [text[end:start], mark]
        end = stop
    rest = text[end:]
    cut = _OPENING.search(rest)
    kept += [rest[: cut.start()], mark] if cut else [rest]
    return re.sub(rf"```\w*\s*({re.escape(mark)})\s*(?:```|$)", r"\1", "".join(kept)).strip()


def _whole_pages(text: str) -> list[tuple[int, int]]:
    """Start, or that of the doctype before it, and end of the outermost pages, in order; if an `<html>` was never
    closed, of the last page that is."""
    pages, start, depth, opened = [], 0, 0, 0
    for tag in _HTML_TAG.finditer(text):
        if not tag.group().startswith("</"):
            start = tag.start() if depth == 0 else start
            opened = tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                pages.append((start, tag.end()))
    if depth:
        closing = (tag.end() for tag in _HTML_TAG.finditer(text, opened) if tag.group().startswith("</"))
        pages += [(opened, end) for end in closing][:1]
    return pages
