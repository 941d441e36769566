"""Find the HTML page in a message, and in an answer."""

import re

from sweet_rl.dialogues.fences import fenced_blocks, plain_text, texts_of_blocks

_TAG = re.compile(r"<(?:html|head|body)\b", re.IGNORECASE)
_PAGE = re.compile(
    r"^[ \t]*<(?:html|head|body)\b|<!doctype html\b[^<>]*>\s*<|<html\b[^<>]*>\s*<(?!/)", re.IGNORECASE | re.MULTILINE
)
_WHOLE = re.compile(rf"(?:{_PAGE.pattern}).*?(?:</html\s*>|\Z)", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"\s*<[a-z!]", re.IGNORECASE)
_END = re.compile(r"</html\s*>", re.IGNORECASE)


def extract_page(text: str) -> str | None:
    """The page of a message.

    Returns:
        The last fenced block with a page, up to its `</html>`, or else the last one that begins with an element.
        Without such a block the text itself, from where a page begins to its `</html>`. None if there is none.
    """
    text = plain_text(text).strip()
    start = _start(text)
    begins_with_it = start == 0 or (start is not None and text.startswith("<!--"))
    if not begins_with_it:  # else fences are a part of the page
        blocks = list(texts_of_blocks(text))
        pages = [one for one in blocks if _PAGE.search(one)] or [one for one in blocks if _MARKUP.match(one)]
        if pages:
            return _without_words(pages[-1])
    if start is None:
        return None
    page = text if begins_with_it else text[start:]
    return _without_words(page) if _END.search(page) else None


def _start(text: str) -> int | None:
    """Where the last page of a text begins: the first beginning of one behind the `</html>` of those before it."""
    start, place = None, 0
    for end in [*(found.end() for found in _END.finditer(text)), len(text)]:
        if found := _PAGE.search(text, place, end):
            start = found.start()
        place = end
    return start


def answered_page(answer: str | None) -> str | None:
    """The page of an answer: as in a message, or elements alone, or a page that was cut off; or None."""
    if answer is None:
        return None
    if page := extract_page(answer):
        return page
    text = plain_text(answer).strip()
    if _MARKUP.match(text):
        return text
    start, tag = _start(text), _TAG.search(text)
    if start is None and tag is not None:
        start = tag.start()
    return None if start is None else _without_words(text[start:])


def without_pages(text: str, mark: str) -> str:
    """The text with `mark` in place of each page, also of one that was cut off."""
    text = plain_text(text)
    for block in reversed(fenced_blocks(text)):
        if extract_page(text[block.start : block.end]):
            text = text[: block.start] + mark + text[block.end :]
    return _WHOLE.sub(mark, text).strip()


def _without_words(page: str) -> str:
    """The page up to its last `</html>`, if it has one."""
    ends = [found.end() for found in _END.finditer(page)]
    return page[: ends[-1] if ends else None].strip()
