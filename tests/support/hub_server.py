"""A server on 127.0.0.1 with the few addresses of the Hugging Face hub that downloads of files use."""

from __future__ import annotations

import hashlib
import re
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.support.http_handler import ReplyHandler

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer:
    """A hub in a thread, used as a context manager.

    Attributes:
        files: Content by `datasets/OWNER/NAME/FILE`, or `OWNER/NAME/FILE` of a model.
        requests: (method, path) of each request.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.requests: list[tuple[str, str]] = []
        server = self

        class Handler(ReplyHandler):
            def do_HEAD(self) -> None:
                self._resolve()

            def do_GET(self) -> None:
                self._resolve()

            def _resolve(self) -> None:
                server.requests.append((self.command, self.path))
                found = re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", unquote(self.path).partition("?")[0])
                content = server.files.get(f"{found[1]}/{found[3]}") if found else None
                if content is None:
                    known = bool(found) and any(name.startswith(f"{found[1]}/") for name in server.files)
                    code = "EntryNotFound" if known else "RepoNotFound"
                    self.reply({"error": "not found"}, 404, {"x-error-code": code})
                    return
                etag = hashlib.sha256(content).hexdigest()
                self.reply(content, headers={"etag": f'"{etag}"', "x-repo-commit": COMMIT})

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=[0.01], daemon=True)

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def use_hub(monkeypatch: Any, hub: HubServer, cache: Path) -> None:
    """Let huggingface_hub in this process use the hub, with an empty cache."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
