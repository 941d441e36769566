"""Commands to a browser and events from it over one WebSocket (DevTools, WebDriver BiDi); every wait has a deadline."""

import json
import time
from collections.abc import Callable
from typing import Any

import websocket

from sweet_rl.rendering.failures import DrawingFailed

TICK = 0.25  # seconds of silence after which `idle` is called


class Connection:
    """A session with a browser. `deadline` (of time.monotonic) holds for whatever is called until it is set anew."""

    def __init__(
        self, address: str, deadline: float, on_event: Callable[[str, dict], None], idle: Callable[[], None]
    ) -> None:
        """`on_event(method, params)` gets what the browser tells unasked; `idle` runs while it is silent."""
        self.deadline = deadline
        self._on_event, self._idle = on_event, idle
        self._next = 0
        self._answers: dict[int, dict] = {}
        try:
            self._socket = websocket.create_connection(
                address,
                timeout=max(deadline - time.monotonic(), 0.01),
                http_no_proxy=["127.0.0.1", "localhost"],
                suppress_origin=True,
                skip_utf8_validation=True,
            )
        except (websocket.WebSocketException, OSError) as error:
            raise self._broken(error) from error

    def send(self, method: str, **params: Any) -> int:
        """Sends a command without waiting for its answer; returns its number."""
        self._next += 1
        try:
            self._socket.settimeout(max(self.deadline - time.monotonic(), 0.01))
            self._socket.send(json.dumps({"id": self._next, "method": method, "params": params}))
        except (websocket.WebSocketException, OSError) as error:
            raise self._broken(error) from error
        return self._next

    def call(self, method: str, **params: Any) -> dict:
        """The result of a command. Events that come meanwhile are handled. Raises DrawingFailed."""
        number = self.send(method, **params)
        self.wait(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if "error" in answer:
            reason = answer.get("message") or answer["error"]
            raise DrawingFailed("crashed", f"the browser refused {method}: {reason}")
        return answer["result"]

    def wait(self, done: Callable[[], bool]) -> None:
        """Handles events until `done()`. Raises DrawingFailed: "timeout" at the deadline, "crashed" when the
        connection breaks."""
        while not done():
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise DrawingFailed("timeout", "the page was not drawn within its time limit")
            try:
                self._socket.settimeout(min(left, TICK))
                text = self._socket.recv()
            except websocket.WebSocketTimeoutException:
                self._idle()
                continue
            except (websocket.WebSocketException, OSError) as error:
                raise self._broken(error) from error
            if not text:
                raise DrawingFailed("crashed", "the browser closed the connection")
            message = json.loads(text)
            if "method" not in message:
                self._answers[message["id"]] = message
            else:
                self._on_event(message["method"], message["params"])

    def forget_answers(self) -> None:
        """Drops the answers that nobody waits for."""
        self._answers.clear()

    def _broken(self, error: Exception) -> DrawingFailed:
        if isinstance(error, websocket.WebSocketTimeoutException):
            return DrawingFailed("timeout", "the page was not drawn within its time limit")
        return DrawingFailed("crashed", f"the connection to the browser broke: {error}")

    def close(self) -> None:
        """Closes the connection without a farewell."""
        self._socket.shutdown()
