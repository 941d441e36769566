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

SHORTEST = 6  # characters of a secret; what stands for "no key" (none, EMPTY) is shorter
_SECRET_VARIABLE = re.compile(r"((^|_|API|ACCESS)KEY|TOKEN|SECRET|PASSWORD)$")
_PERCENT, _SEMICOLON, _HASH = "%(?:25)*", "(?:;|%(?:25)*3b)", "(?:#|%(?:25)*23)"  # escaped any number of times
_AND = rf"(?:&|%(?:25)*26|(?<=\\)u0026)(?:amp{_SEMICOLON})*"
_BACKSLASH = rf"(?:\\|{_PERCENT}5c|{_AND}{_HASH}(?:92|x5c){_SEMICOLON}|(?<=\\)(?:u005c|x5c))"
_ESCAPE = re.compile(r"[\\%&]")  # with one of these every escaped character begins
_noted: set[str] = set()


def note_secret(secret: str) -> None:
    """Take this text out from now on, as the values of OPENAI_API_KEY, HF_TOKEN and the like always are."""
    _noted.add(secret)


def redacted(text: str) -> str:
    """The text with *** for each secret, however escaped, and with addresses without user, password and query."""
    text = _without_secrets(text)
    return re.sub(r"\S+", lambda word: _plain_address(word[0]), text) if "@" in text or "://" in text else text


def holds_secret(text: str) -> bool:
    """Whether a secret is in the text, however escaped; addresses with a password or a query do not count."""
    return _without_secrets(text) != text


def redacted_values(value: Any) -> Any:
    """A JSON value, or dictionaries and lists of other objects, with each text `redacted`."""
    if isinstance(value, dict):
        return {redacted_values(key): redacted_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_values(item) for item in value]
    return redacted(value) if isinstance(value, str) else value


def _without_secrets(text: str) -> str:
    of_environment = {os.environ[name].strip() for name in os.environ if _is_secret(name)}
    for secret in sorted(_noted | of_environment, key=len, reverse=True):
        # Where nothing is escaped, it can only stand as it is: every reply of a server comes here, and few have a key.
        if len(secret) >= SHORTEST and (_ESCAPE.search(text) or _plain(secret).search(text)):
            text = _spellings(secret).sub("***", text)
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
def _is_secret(variable: str) -> bool:
    return _SECRET_VARIABLE.search(variable.upper()) is not None


@cache
def _plain(secret: str) -> re.Pattern[str]:
    return re.compile(re.escape(secret), re.IGNORECASE)


@cache
def _spellings(secret: str) -> re.Pattern[str]:
    """A pattern of the secret, each character as it is or escaped by JSON, Python, HTML or addresses, also repeatedly.

    Each escaping doubles the backslashes before a character, so any number of them may stand there. No two repetitions
    in the pattern can match the same backslashes, because the time would grow with a power of their number.
    """

    def of(character: str) -> str:
        code, in_json, in_python = ord(character), json.dumps(character)[1:-1], ascii(character)[1:-1]
        escaped = {character, in_json, in_python, f"\\u{code:04x}", f"\\x{code:02x}"}
        forms = {re.escape(form.removeprefix("\\")).replace(r"\\", f"{_BACKSLASH}+") for form in escaped}
        forms.add("".join(f"{_PERCENT}{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")))
        named = html.escape(character).removeprefix(character).strip("&;")  # amp of &, nothing of most
        numbers = [f"{_HASH}{code}", f"{_HASH}x{code:x}"]
        forms |= {f"{_AND}{name}{_SEMICOLON}" for name in (*numbers, named) if name}
        return f"(?:{'|'.join(sorted(forms, key=len, reverse=True))})"

    pattern, before = r"(?<!\\)", r"\\*"
    for backslashes, character in re.findall(r"(\\+)|([^\\])", secret):
        pattern += f"{_BACKSLASH}+" if backslashes else before + of(character)
        before = "" if backslashes else f"{_BACKSLASH}*"
    return re.compile(pattern, re.IGNORECASE)
