"""Keys, passwords and queries of addresses, taken out of what is printed or written.

`redacted` is the only place that does it. Errors (`errors.py`), log records and tracebacks (`cli/process.py`) and
manifests (`runs/manifest.py`) call it for all of their text. A reply that `holds_secret` is refused
(`models/replies.py`).
"""

from __future__ import annotations

import html
import json
import os
import re
from functools import cache
from typing import Any
from urllib.parse import quote

SHORTEST = 6  # characters of a secret; what stands for "no key" (none, EMPTY) is shorter
# Keys that libraries of this process send by themselves: to the hub and to wandb. No other variable is read: a
# POSTGRES_PASSWORD=password would make a secret of a common word.
SENT = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY")
_A_WORD = re.compile(r"[a-z]+|[A-Z]+|[A-Z][a-z]+")
_noted: set[str] = set()


def note_secret(secret: str) -> None:
    """Take a key that this process sends out of all text from now on, as those of `SENT` always are."""
    _noted.add(secret)


def redacted(text: str) -> str:
    """The text with *** for each secret, and with addresses without user, password and query."""
    text = _without_secrets(text)
    return re.sub(r"\S+", lambda word: _plain_address(word[0]), text) if "@" in text or "://" in text else text


def holds_secret(text: str) -> bool:
    """Whether a secret is in the text that no text has by chance, as it may have the key "ollama" of a local server.

    Addresses with a password or a query do not count.
    """
    return _without_secrets(text, _A_WORD) != text


def redacted_values(value: Any) -> Any:
    """A JSON value, or dictionaries and lists of other objects, with each text `redacted`."""
    if isinstance(value, dict):
        return {redacted_values(key): redacted_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_values(item) for item in value]
    return redacted(value) if isinstance(value, str) else value


def _without_secrets(text: str, but: re.Pattern[str] | None = None) -> str:
    of_environment = {os.environ.get(name, "").strip() for name in SENT}
    for secret in sorted(_noted | of_environment, key=len, reverse=True):
        if len(secret) >= SHORTEST and not (but and but.fullmatch(secret)):
            for spelling in _spellings(secret):
                text = text.replace(spelling, "***")
    return text


def _plain_address(word: str) -> str:
    """A word in which an address has neither user nor password nor query; a path such as hf:OWNER/NAME@main stays."""
    scheme, separator, address = word.partition("://")
    login, at, host = address.rpartition("@") if separator else word.rpartition("@")
    if not separator:
        flag = login[: login.find("=") + 1] if login.startswith("--") else ""
        return flag + host if at and ":" in login and "/" not in login else word
    if at and (":" in login or "/" not in login):
        address = host
    return scheme + separator + re.sub(r"[?#][^\s\"'<>)]*", "", address)


@cache
def _spellings(secret: str) -> list[str]:
    """The secret as it is and as JSON, an address or HTML spell it, also one inside another; the longest first.

    Most keys have only letters, digits, - and _, which all of them leave alone.
    """
    found = {secret}
    for _ in range(2):
        for text in tuple(found):
            found |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
            found |= {quote(text, safe, errors="surrogatepass") for safe in ("", "/")} | {html.escape(text)}
    return sorted(found, key=len, reverse=True)
