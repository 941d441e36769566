"""Keys, passwords and queries of addresses, taken out of what is printed or written.

`redacted` is the only place that does it. Errors (`errors.py`), log records and tracebacks (`cli/process.py`) and
manifests (`runs/manifest.py`) call it for all of their text.
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
_SECRET_VARIABLE = re.compile(r"(API_?KEY|ACCESS_?KEY|TOKEN|SECRET|PASSWORD)$")
_noted: set[str] = set()


def note_secret(secret: str) -> None:
    """Take this text out from now on, as the values of OPENAI_API_KEY, HF_TOKEN and the like always are."""
    _noted.add(secret)


def redacted(text: str) -> str:
    """The text with *** for each secret, however escaped, and with addresses without user, password and query."""
    of_environment = {value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name.upper())}
    for secret in sorted(_noted | of_environment, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = _spellings(secret).sub("***", text)
    return re.sub(r"\S+", lambda word: _plain_address(word[0]), text) if "@" in text or "://" in text else text


def redacted_values(value: Any) -> Any:
    """A JSON value, or dictionaries and lists of other objects, with each text `redacted`."""
    if isinstance(value, dict):
        return {redacted_values(key): redacted_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_values(item) for item in value]
    return redacted(value) if isinstance(value, str) else value


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
def _spellings(secret: str) -> re.Pattern[str]:
    """A pattern of the secret with each character as it is, or as JSON, Python, HTML or an address would escape it."""

    def of(character: str) -> str:
        in_json = json.dumps(character)[1:-1]
        forms = {
            character,
            in_json,
            json.dumps(in_json)[1:-1],
            ascii(character)[1:-1],
            rf"\{character}" if character in "'\"" else character,
            f"\\u{ord(character):04x}",
            f"\\x{ord(character):02x}",
            quote(character, safe=""),
            "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")),
            html.escape(character),
            f"&#{ord(character)};",
            f"&#x{ord(character):x};",
        }
        return f"(?:{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})"

    return re.compile("".join(map(of, secret)), re.IGNORECASE)
