"""The servers that a hostname names, the key that they get, and the requests that a server here takes."""

from __future__ import annotations

import os
import re
import urllib.parse
import urllib.request
from collections.abc import Sequence

from sweet_rl.runs.errors import UserError, register_key

HOSTED = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NAME_OF_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")  # what else is given may be a key itself: it is not shown


def is_own_request(host: str, origin: str | None, listens_on: str) -> bool:
    """Return whether a server's own client made a request, and not the page of another site in a browser here.

    Args:
        host: Its header Host. On a loopback address a server has the names of LOOPBACK only.
        origin: Its header Origin, which a browser sends for a page; None if there is none.
        listens_on: Address on which the server listens.
    """
    if origin is not None and origin.partition("://")[2] != host:
        return False
    name = re.sub(r":[0-9]+$", "", host).strip("[]").lower()
    return listens_on not in LOOPBACK or name in LOOPBACK


def split_hostnames(hostname: str | None) -> list[str]:
    """Return the names in a list with commas. Raises UserError if there is a user, a password or a query in it."""
    text = (hostname or "").strip()
    _check_no_secret(text)
    return [name for name in text.split(",") if name.strip()]


def base_url(hostname: str) -> str:
    """Return `http://host:8000/v1` for a host or a host with a port; a full URL is returned unchanged.

    Raises:
        UserError: It is none of these.
    """
    name = hostname.strip().rstrip("/")
    _check_no_secret(name)
    try:
        url = name if "://" in name else f"http://{name}"
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or any(map(str.isspace, name)):
            raise ValueError("no host")
        has_port = parts.port is not None  # raises ValueError for a port that is none
        return name if "://" in name else f"{url if has_port else f'{url}:8000'}/v1"
    except ValueError as error:
        raise UserError(
            f"{hostname!r} is no server ({error}); give host, host:port or a full URL, several separated by commas."
        ) from error


def proxy_note(url: str) -> str:
    """Return through which proxy the environment has a server asked, and how to ask it directly; "" if through none."""
    parts = urllib.parse.urlsplit(url)
    proxies = urllib.request.getproxies()
    name = next((name for name in (parts.scheme, "all") if proxies.get(name)), None)
    host = parts.hostname or ""
    if name is None or host in LOOPBACK or urllib.request.proxy_bypass(host):
        return ""
    proxy = proxies[name].rpartition("@")[2]  # without the user and password
    return f"{url} is asked through the proxy {proxy} ({name.upper()}_PROXY); NO_PROXY={host} has it asked directly."


def api_key(variable: str | None, urls: Sequence[str]) -> str | None:
    """Return the key for these servers: that of the variable, or without one the key of OpenAI for its own API alone.

    Raises:
        UserError: The variable is not set, or its value cannot be sent. The message does not show the value.
    """
    if variable is None and not all(map(_is_openai, urls)):
        return None
    key = os.environ.get(variable or KEY_VARIABLE, "").strip()
    if variable is not None and not key:
        name = f" {variable}" if NAME_OF_VARIABLE.fullmatch(variable) else ""
        raise UserError(f"--api_key_variable (or the like) names an environment variable{name} that is not set.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError("the API key has a space, a line break or a character beyond ASCII: no request can have it.")
    register_key(key)
    return key or None


def _check_no_secret(hostname: str) -> None:
    if any(character in hostname for character in "@?#\\"):
        raise UserError(
            "a hostname has no user, password or query (none of @ ? # \\): put a key into an environment variable, and "
            "name that with --api_key_variable."
        )


def _is_openai(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" and parts.netloc.lower() in ("api.openai.com", "api.openai.com:443")
