"""A real HTTP server on 127.0.0.1 with the OpenAI API; each test decides what it answers and how it fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from tests.support.http_handler import ReplyHandler

MODEL = "served-model"


@dataclass
class Reply:
    """An HTTP answer: JSON or raw bytes; `wait` seconds before it; `drop` closes the connection instead."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    drop: bool = False


def chat_reply(*texts: str | None, reason: str = "stop") -> Reply:
    choices = [
        {"index": i, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
        for i, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 7, "completion_tokens": 5 * len(texts), "total_tokens": 7 + 5 * len(texts)}
    return Reply(
        {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL} | {"choices": choices, "usage": usage}
    )


def text_reply(
    text: str, token_ids: list[int] | None = None, logprobs: list[float] | None = None, reason: str = "stop"
):
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
    if token_ids is not None:
        choice["token_ids"] = token_ids
    if logprobs is not None:
        choice["logprobs"] = {"token_logprobs": logprobs, "tokens": ["?"] * len(logprobs)}
    usage = {"completion_tokens": 5}
    return Reply(
        {"id": "1", "object": "text_completion", "created": 1, "model": MODEL, "choices": [choice], "usage": usage}
    )


def refusal(status: int, message: str, param: str | None = None, **headers: str) -> Reply:
    error = {"message": message, "type": "error", "param": param, "code": None}
    return Reply({"error": error}, status, {name.replace("_", "-"): value for name, value in headers.items()})


class ApiServer:
    """A server in a thread, used as a context manager.

    Attributes:
        answer: Called with the body of each request; returns its Reply.
        requests: (path, body) of each request.
        headers: The Authorization header of each request.
        models: Names of the models that it lists.
        listing: What it answers in place of that list.
    """

    def __init__(self, answer: Callable[[dict], Reply], port: int = 0) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict]] = []
        self.headers: list[str | None] = []  # Authorization of every call
        self.models = [MODEL]
        self.listing: Reply | None = None
        self.lock = threading.Lock()
        server = self

        class Handler(ReplyHandler):
            def do_GET(self) -> None:
                facts = {"object": "model", "created": 1, "owned_by": "us"}
                listed = Reply({"object": "list", "data": [{"id": name, **facts} for name in server.models]})
                self._send(server.listing or listed)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with server.lock:
                    server.requests.append((self.path, body))
                    server.headers.append(self.headers.get("authorization"))
                self._send(server.answer(body))

            def _send(self, reply: Reply) -> None:
                time.sleep(reply.wait)
                if reply.drop:
                    self.close_connection = True
                    self.connection.close()
                    return
                try:
                    self.reply(reply.body, reply.status, reply.headers)
                except OSError:
                    pass  # the client gave up waiting

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_: Any) -> None:
                pass

        self._http = Server(("127.0.0.1", port), Handler, bind_and_activate=False)
        if not port:
            self._http.server_bind()
        self.url = f"http://127.0.0.1:{port or self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=[0.01], daemon=True)
        self._bound = not port

    def __enter__(self) -> ApiServer:
        """Start to listen; before this, connections to a given port are refused."""
        if not self._bound:
            self._http.server_bind()
        self._http.server_activate()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def in_turn(*replies: Reply) -> Callable[[dict], Reply]:
    """Answers with each reply once, and with the last one from then on."""
    left, lock = list(replies), threading.Lock()

    def answer(_: dict) -> Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer
