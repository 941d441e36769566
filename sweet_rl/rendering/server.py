"""The server of this process that answers every request of the browsers, whatever host and address they ask for.

It answers with a page, with the files of Tailwind and photographs (`substitutes`), and with 404 otherwise. Each page
has a host of its own with a name that another page cannot guess. So no page can show another one in a frame, in
particular not the reference page, and each has a storage of its own.
"""

import secrets
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from sweet_rl.rendering.scripts import may_run_scripts
from sweet_rl.rendering.substitutes import substitute
from sweet_rl.rendering.tailwind import FILES

IDLE_SECONDS = 10.0  # after which a connection is closed
TLS_HANDSHAKE = b"\x16"  # first byte of a connection with TLS
# Of every page: no dialogs, new windows, downloads and forms (each would need an `allow-`), no peer connections.
POLICY = "sandbox allow-same-origin{scripts}; webrtc 'block'"


class PageServer(ThreadingHTTPServer):
    """Serves pages on a free port of 127.0.0.1, with and without TLS, until it is closed."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: dict[str, str] = {}  # by host, while they are drawn
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(FILES / "page_server.pem")
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @contextmanager
    def serving(self, page: str) -> Iterator[str]:
        """Serves a page; the context's value is its origin, "http://" and its host."""
        # A browser has a process for each site. Pages without scripts share one, which takes a third of the time.
        site = "" if may_run_scripts(page) else ".page"
        host = f"{secrets.token_hex(8)}{site}.invalid"
        self.pages[host] = page
        try:
            yield f"http://{host}"
        finally:
            del self.pages[host]

    def close(self) -> None:
        """Stops serving."""
        self.shutdown()
        self.server_close()

    def finish_request(self, request: socket.socket, client_address: Any) -> None:  # type: ignore[override]
        """Answers the requests of one connection, in a thread of its own."""
        try:
            request.settimeout(IDLE_SECONDS)
            if request.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE:
                with self._tls.wrap_socket(request, server_side=True) as encrypted:
                    super().finish_request(encrypted, client_address)
            else:
                super().finish_request(request, client_address)
        except (OSError, ValueError):
            pass  # the browser closed the connection, or sent an invalid address


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PageServer

    def do_GET(self) -> None:
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        path, _, query = self.path.partition("?")
        page = self.server.pages.get(host)
        if page is not None and path == "/":
            policy = POLICY.format(scripts=" allow-scripts" if may_run_scripts(page) else "")
            return self._answer(200, "text/html; charset=utf-8", page.encode("utf-8", "replace"), policy)
        asking = urlsplit(self.headers.get("Referer", "")).hostname or ""
        found = substitute(host, path, query, self.server.pages.get(asking))
        if found is None:
            return self._answer(404, "text/plain", b"")
        return self._answer(200, *found)

    def _answer(self, status: int, media_type: str, body: bytes, policy: str = "sandbox") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
