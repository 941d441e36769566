"""The viewer as a local server, for files too large for one page: entries are read from the file on request.

The server is read only. It answers GET on a few fixed addresses and never returns a file that a request names. It
listens on 127.0.0.1 and refuses requests that name another host or come from another site's page. Not covered: other
users of this machine can open the address.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import tempfile
import threading
import time
import traceback
from bisect import bisect_right
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from sweet_rl.models.settings import LOOPBACK
from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.entries import Collection
from sweet_rl.viewer.html_file import json_text
from sweet_rl.viewer.page import shell

ADDRESS = "127.0.0.1"
ROWS_AT_ONCE = 4000
FIRST_ROWS = 40
PAUSE = 0.01  # seconds that the scan sleeps after a row while a request is being answered
BLOCK = 1 << 22  # bytes of text that are searched at a time
_WORDS = re.compile(r'"([^"]+)"|(\S+)')


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


class SearchText:
    """Text search over many entries without holding them in memory: lower-case texts in one temporary file.

    Entries 0, 1, ... are added in order. A query finds the entries that contain every word of it. Case is ignored,
    words in double quotes are one phrase, and a word is also found inside other words.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="sweet_rl_search_")
        self._starts: list[int] = []
        self._end = 0

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, texts: Sequence[str]) -> None:
        """Add the texts of the next entry. A phrase is not found across two of them."""
        data = "\n\x00".join(texts).casefold().encode("utf-8", "surrogatepass") + b"\xff"
        self._file.seek(self._end)
        self._file.write(data)
        self._starts.append(self._end)
        self._end += len(data)

    def find(self, query: str) -> list[int]:
        """The entries that hold all words of `query`, in order; every entry for an empty one."""
        count, end = len(self._starts), self._end
        found = set(range(count))
        for word in words_of(query):
            found &= self._holding(word.encode("utf-8", "surrogatepass"), count, end)
        return sorted(found)

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()

    def _holding(self, needle: bytes, count: int, end: int) -> set[int]:
        """The first `count` entries that contain `needle`. Each block ends with the last entry that begins in it."""
        self._file.flush()
        found: set[int] = set()
        first = 0
        while first < count:
            start = self._starts[first]
            last = bisect_right(self._starts, start + BLOCK, first, count)
            stop = self._starts[last] if last < count else end
            block = os.pread(self._file.fileno(), stop - start, start)
            place = block.find(needle)
            while place >= 0:
                entry = bisect_right(self._starts, start + place, first, last) - 1
                found.add(entry)
                following = self._starts[entry + 1] - start if entry + 1 < last else len(block)
                place = block.find(needle, following)
            first = last
        return found


def words_of(query: str) -> list[str]:
    """The words and quoted phrases of a query, case folded."""
    return [(phrase or word).casefold() for phrase, word in _WORDS.findall(query)]


class Scanned:
    """A collection that is scanned in the background; entries that have been scanned can be read already."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.rows: list[dict] = []
        self.texts = SearchText()
        self.done = False
        self.error: str | None = None
        self._summary: dict | None = None
        self._changed = threading.Condition()
        self._closed = False
        self.answering = 0
        self._thread = threading.Thread(target=self._scan, daemon=True, name="scan")

    def start(self) -> Scanned:
        self._thread.start()
        return self

    def close(self) -> None:
        """End the scan and delete its temporary file."""
        self._closed = True
        self._thread.join()
        self.texts.close()

    def _scan(self) -> None:
        try:
            for row, texts in self.collection.scan():
                if self._closed:
                    return
                with self._changed:
                    self.texts.add(texts)
                    self.rows.append(row)
                    if len(self.rows) <= FIRST_ROWS:
                        self._changed.notify_all()
                if self.answering and len(self.rows) > FIRST_ROWS:
                    time.sleep(PAUSE)
            self._summary = self.collection.summary()
        except UserError as error:
            self.error = str(error)
        except Exception as error:  # shown on the page: an exception in this thread would be lost
            traceback.print_exc()
            self.error = f"{type(error).__name__}: {error}"
        finally:
            with self._changed:
                self.done = True
                self._changed.notify_all()
            if self.error:
                print(f"error: {self.error}", file=sys.stderr)

    def index(self, start: int) -> dict:
        """Rows from `start` on, at most ROWS_AT_ONCE; waits for the first ones."""
        with self._changed:
            wanted = FIRST_ROWS if start == 0 else start + 1
            self._changed.wait_for(lambda: self.done or len(self.rows) >= wanted, timeout=0.5)
            rows = self.rows[start : start + (ROWS_AT_ONCE if start else FIRST_ROWS)]
            done = self.done and start + len(rows) == len(self.rows)
        answer: dict[str, Any] = {
            "rows": rows,
            "done": done,
            "kind": self.collection.kind,
            "title": self.collection.title,
        }
        if done:
            answer |= {"summary": self._summary, "error": self.error}
        return answer

    def search(self, query: str) -> dict:
        """{found: numbers of the entries with every word, upto: number of entries that were searched}."""
        with self._changed:
            return {"upto": len(self.texts), "found": self.texts.find(query)}

    def view(self, number: int) -> dict | None:
        """One entry; None if there is none with this number yet."""
        return self.collection.view(number) if 0 <= number < len(self.rows) else None


def make_server(collection: Collection, pictures: Any = None, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1 with its scan started. `serve_forever()` runs it, `server_close()` ends both.

    Port 0 takes a free port.

    Raises:
        UserError: the port cannot be used.
    """
    scanned = Scanned(collection)
    handler = type("Handler", (_Handler,), {"scanned": scanned, "pictures": pictures})
    try:
        server = _Server((ADDRESS, port), handler)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--port {port} is not available: {error}. Give another one, or --port 0 for a free one."
        ) from error
    server.scanned = scanned.start()
    return server


def serve(collection: Collection, pictures: Any = None, port: int = 0) -> None:
    """Print the address and serve until interrupted."""
    server = make_server(collection, pictures, port)
    print(f"http://{ADDRESS}:{server.server_address[1]}/  (this machine only; Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("\nended")
    finally:
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    scanned: Scanned | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # the browser left the page
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        if self.scanned is not None:
            self.scanned.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sweet_rl", ""
    timeout = 60
    scanned: Scanned
    pictures: Any

    def do_GET(self) -> None:
        if refusal := self._refusal():
            return self._send(403, "text/plain", refusal.encode())
        path, _, query = self.path.partition("?")  # urlsplit refuses some addresses: http://[::1/
        self.scanned.answering += 1
        try:
            status, kind, body = self._answer(path, parse_qs(query, errors="replace"))
        except UserError as error:
            status, kind, body = 409, "application/json", json_text({"error": str(error)}).encode()
        except Exception as error:  # answered, because a browser would wait
            traceback.print_exc()
            status, kind, body = 500, "application/json", json_text({"error": type(error).__name__}).encode()
        finally:
            self.scanned.answering -= 1
        self._send(status, kind, body)

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, str, bytes]:
        if path == "/":
            return 200, "text/html; charset=utf-8", shell(self.scanned.collection.title, "", served=True).encode()
        value: Any = None
        if path == "/index":
            start = query.get("from", ["0"])[0]
            value = self.scanned.index(int(start)) if re.fullmatch(r"[0-9]{1,9}", start) else None
        elif path == "/search":
            value = self.scanned.search(query.get("q", [""])[0][:1000])
        elif match := re.fullmatch(r"/entry/([0-9]{1,9})", path):
            value = self.scanned.view(int(match[1]))
        elif self.pictures is not None and (match := re.fullmatch(r"/picture/([0-9a-f]{16,64})", path)):
            picture = self.pictures.get(match[1])
            if picture is not None:
                return 200, "image/png", picture
        if value is None:
            return 404, "application/json", b'{"error":"there is nothing at this address"}'
        return 200, "application/json", json_text(value).encode("ascii")

    def _refusal(self) -> str | None:
        """Why a request is refused: it names another host, or another site's page sent it. None if it is not."""
        if not is_own_request(self.headers.get("Host", ""), self.headers.get("Origin"), ADDRESS):
            return f"this viewer answers its own page only, at {', '.join(LOOPBACK)}"
        own = self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        followed = self.path.partition("?")[0] == "/" and self.headers.get("Sec-Fetch-Dest") == "document"  # a link
        if not own and not followed:
            return "this viewer answers its own page only"
        return None

    def _send(self, status: int, kind: str, body: bytes) -> None:
        packed = len(body) > 1024 and kind != "image/png" and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, 1)
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store" if kind != "image/png" else "private, max-age=86400"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            *([("Content-Encoding", "gzip")] if packed else []),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Do not log requests: the terminal is for errors."""
