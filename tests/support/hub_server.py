"""A server on 127.0.0.1 with the few addresses of the Hugging Face hub that downloads and uploads of files use."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.support.http_handler import ReplyHandler

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_token_of_the_test"


class HubServer:
    """A hub in a thread, used as a context manager.

    Attributes:
        files: Content by `datasets/OWNER/NAME/FILE`, or `OWNER/NAME/FILE` of a model.
        private: Names of the repositories that were created as private ones.
        requests: (method, path) of each request.
        broken: Whether uploads fail.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.private: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.broken = False
        server = self

        class Handler(ReplyHandler):
            def do_HEAD(self) -> None:
                self._resolve()

            def do_GET(self) -> None:
                if self.path == "/api/whoami-v2":
                    server.requests.append(("GET", self.path))
                    if self.headers.get("authorization") == f"Bearer {TOKEN}":
                        self.reply({"name": "me", "type": "user", "orgs": []})
                    else:
                        self.reply({"error": "who?"}, 401)
                else:
                    self._resolve()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                server.requests.append(("POST", self.path))
                if self.path == "/api/repos/create":
                    asked = json.loads(body)
                    name = f"{asked.get('organization') or 'me'}/{asked['name']}"
                    if "private" in (asked.get("visibility"), "private" * bool(asked.get("private"))):
                        server.private.append(name)
                    prefix = "datasets/" if asked.get("type") == "dataset" else ""
                    self.reply({"url": f"{server.url}/{prefix}{name}", "name": name})
                elif self.path == "/api/validate-yaml":
                    self.reply({"errors": [], "warnings": []})
                elif found := re.fullmatch(r"/api/(datasets|models)/([^/]+/[^/]+)/(preupload|commit)/main", self.path):
                    kind, name, action = found.groups()
                    place = f"datasets/{name}" if kind == "datasets" else name
                    if server.broken:
                        self.reply({"error": "out of order"}, 403)
                    else:
                        self.reply(self._commit(body, place) if action == "commit" else self._preupload(body))
                else:
                    self.reply({"error": "no such address"}, 404)

            def _preupload(self, body: bytes) -> dict:
                files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
                return {"files": [{**file, "shouldIgnore": False} for file in files]}

            def _commit(self, body: bytes, place: str) -> dict:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        content = base64.b64decode(line["value"]["content"])
                        server.files[f"{place}/{line['value']['path']}"] = content
                return {"commitUrl": f"{server.url}/{place}/commit/{COMMIT}", "commitOid": COMMIT, "success": True}

            def _resolve(self) -> None:
                server.requests.append((self.command, self.path))
                found = re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", unquote(self.path).partition("?")[0])
                content = server.files.get(f"{found[1]}/{found[3]}") if found else None
                if content is None:
                    self.reply({"error": "not found"}, 404, {"x-error-code": "EntryNotFound"})
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
    """Let huggingface_hub in this process use the hub, with an empty cache and the token that the hub knows."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
