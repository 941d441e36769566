"""Addresses of servers: names on the command line, and files of names that may change during a run."""

from __future__ import annotations

import logging
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.errors import UserError

logger = logging.getLogger(__name__)


def base_url(hostname: str) -> str:
    """Return `http://host:8000/v1` for a host or a host with a port; a full URL is returned unchanged.

    Raises:
        UserError: It is none of these.
    """
    name = hostname.strip().rstrip("/")
    if not name:
        raise UserError("an empty hostname; give host, host:port or a full URL, several separated by commas.")
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


class Hosts:
    """The base URLs of servers.

    Args:
        names: Hosts or URLs; `@FILE` stands for the lines of a file (`#` begins a comment).

    Attributes:
        urls: The base URLs, without repetitions.

    Raises:
        UserError: A name is no server, or a file cannot be read or names none.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._fixed = [base_url(name) for name in names if not name.strip().startswith("@")]
        self._files = [Path(name.strip()[1:]) for name in names if name.strip().startswith("@")]
        self._states = [_state(file) for file in self._files]
        self.urls = self._read()

    @property
    def may_change(self) -> bool:
        """Whether any name is a file."""
        return bool(self._files)

    def changed(self) -> bool:
        """Read the files again if one was written since, and return whether `urls` has changed.

        A file that cannot be used is reported and changes nothing.
        """
        states = [_state(file) for file in self._files]
        if states == self._states:
            return False
        self._states, before = states, self.urls
        try:
            self.urls = self._read()
        except UserError as error:
            logger.warning("%s The list of servers stays unchanged.", error)
        return self.urls != before

    def _read(self) -> list[str]:
        urls = list(self._fixed)
        for file in self._files:
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"the file of servers {file} cannot be read: {error}.") from error
            names = [name for name in (line.partition("#")[0].strip() for line in lines) if name]
            if not names:
                raise UserError(f"the file of servers {file} names none: one per line, as host, host:port or URL.")
            urls += map(base_url, names)
        return list(dict.fromkeys(urls))


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
