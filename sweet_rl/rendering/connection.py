"""Commands to a browser and events from it over one WebSocket (DevTools or WebDriver BiDi)."""

import json
import time
from collections.abc import Callable
from typing import Any

import websocket

from sweet_rl.rendering.browser import DrawingFailed

CHECK_SECONDS = 0.5  # between two checks of the browser's memory and CPU time


class Connection:
    """A session with a browser. Every wait ends at the deadline (of time.monotonic())."""

    def __init__(
        self, address: str, deadline: float, on_event: Callable[[str, dict], None], check: Callable[[], None]
    ) -> None:
        """
        Args:
            address: Address of the WebSocket.
            deadline: Time limit of connecting and of the first commands (time.monotonic()).
            on_event: Callback(method, params), called for each event of the browser.
            check: Function called every `CHECK_SECONDS` while waiting, and at the deadline; may raise DrawingFailed.
        """
        self._on_event, self._check = on_event, check
        self._next = 0
        self._answers: dict[int, dict] = {}
        self.start(deadline)
        try:
            self._socket = websocket.create_connection(
                address,
                timeout=max(deadline - time.monotonic(), 0.01),
                http_no_proxy=["127.0.0.1", "localhost"],
                suppress_origin=True,
                skip_utf8_validation=True,
            )
        except (websocket.WebSocketException, OSError) as error:
            raise _broken(error) from error

    def start(self, deadline: float) -> None:
        """Sets the deadline of all commands that follow; drops answers that were not waited for."""
        self._deadline = deadline
        self._next_check = time.monotonic() + CHECK_SECONDS
        self._answers.clear()

    def send(self, method: str, **params: Any) -> int:
        """Sends a command without waiting for its answer; returns its number."""
        self._next += 1
        try:
            self._socket.settimeout(max(self._deadline - time.monotonic(), 0.01))
            self._socket.send(json.dumps({"id": self._next, "method": method, "params": params}))
        except (websocket.WebSocketException, OSError) as error:
            raise _broken(error) from error
        return self._next

    def call(self, method: str, **params: Any) -> dict:
        """The result of a command. Events that arrive before it are handled. Raises DrawingFailed."""
        number = self.send(method, **params)
        self.wait(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if "error" in answer:
            reason = answer.get("message") or answer["error"]
            raise DrawingFailed("crashed", f"the browser refused {method}: {reason}")
        return answer["result"]

    def wait(self, done: Callable[[], bool]) -> None:
        """Handles events until `done()`.

        Raises:
            DrawingFailed: "timeout" at the deadline, "crashed" when the connection breaks, and what `check` raises.
        """
        while not done():
            now = time.monotonic()
            if now >= min(self._next_check, self._deadline):
                self._check()
                self._next_check = now + CHECK_SECONDS
            if now >= self._deadline:
                raise _timed_out()
            try:
                self._socket.settimeout(min(max(self._deadline - now, 0.001), CHECK_SECONDS))
                text = self._socket.recv()
            except websocket.WebSocketTimeoutException:
                continue
            except (websocket.WebSocketException, OSError) as error:
                raise _broken(error) from error
            if not text:
                raise DrawingFailed("crashed", "the browser closed the connection")
            message = json.loads(text)
            if "method" not in message:
                self._answers[message["id"]] = message
            else:
                self._on_event(message["method"], message["params"])

    def close(self) -> None:
        """Closes the socket without a closing handshake."""
        self._socket.shutdown()


def _timed_out() -> DrawingFailed:
    return DrawingFailed("timeout", "the page was not drawn within its time limit")


def _broken(error: Exception) -> DrawingFailed:
    if isinstance(error, websocket.WebSocketTimeoutException):
        return _timed_out()
    return DrawingFailed("crashed", f"the connection to the browser broke: {error}")
