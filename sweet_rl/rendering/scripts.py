"""Whether a page may run scripts: such a page has more rights, a process of its own and the whole of Tailwind."""

import html
import re

_SCRIPTS = re.compile(r"<(?:script|iframe|frame|object|embed)\b|javascript:|[\s\"'/]on[a-z]+\s*=")


def resolved(page: str) -> str:
    """The page as it is written and with its character references resolved, in lower case.

    Raises:
        ValueError: A reference has thousands of digits.
    """
    return f"{page}\n{html.unescape(page)}".lower()


def may_run_scripts(page: str) -> bool:
    """Whether the page has a script, an attribute for an event, or a frame. Others are served so that none can run."""
    try:
        return _SCRIPTS.search(resolved(page)) is not None
    except ValueError:
        return True
