"""Commands and events over a socket that is made here: order, deadlines, checks, ends."""

import json

import pytest

websocket = pytest.importorskip("websocket", reason="pages need: pip install -e '.[frontend]'")

from sweet_rl.rendering import connection  # noqa: E402
from sweet_rl.rendering.browser import DrawingFailed  # noqa: E402
from sweet_rl.rendering.connection import CHECK_SECONDS, Connection  # noqa: E402


class Socket:
    """Gives its messages one after another; silence (None) takes as long as the socket waits."""

    def __init__(self, clock, messages):
        self.clock, self.messages, self.sent, self.waits = clock, list(messages), [], 0.0

    def settimeout(self, seconds):
        self.timeout = seconds

    def send(self, text):
        self.sent.append(json.loads(text))

    def recv(self):
        message = self.messages.pop(0) if self.messages else None
        if message is None:
            self.clock.now += self.timeout
            raise websocket.WebSocketTimeoutException
        if isinstance(message, Exception):
            raise message
        return message if isinstance(message, str) else json.dumps(message)


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def connect(monkeypatch):
    def made(*messages, deadline=10.0, check=lambda: None):
        clock = Clock()
        socket = Socket(clock, messages)
        monkeypatch.setattr(connection, "time", clock)
        monkeypatch.setattr(websocket, "create_connection", lambda *_, **settings: socket)
        events = []
        return Connection("ws://x", deadline, lambda *event: events.append(event), check), socket, events, clock

    return made


def test_a_call_gives_its_own_result_and_handles_the_events_before_it(connect):
    one, socket, events, _ = connect(
        {"method": "a", "params": {"n": 1}}, {"id": 1, "result": {}}, {"id": 2, "result": {"v": 3}}
    )
    one.send("Page.first")
    assert one.call("Page.second", x=5) == {"v": 3}
    assert events == [("a", {"n": 1})]
    assert socket.sent == [
        {"id": 1, "method": "Page.first", "params": {}},
        {"id": 2, "method": "Page.second", "params": {"x": 5}},
    ]


@pytest.mark.parametrize(
    "message, said",
    [({"id": 1, "error": "bad", "message": "no such tab"}, "refused Page.x: no such tab"),
     ("", "closed the connection"),
     (websocket.WebSocketConnectionClosedException("gone"), "broke: gone"), (OSError("reset"), "broke: reset")],
)  # fmt: skip
def test_a_refusal_and_a_broken_connection_are_a_crash_that_may_be_the_machines(connect, message, said):
    one, *_ = connect(message)
    with pytest.raises(DrawingFailed, match=said) as failed:
        one.call("Page.x")
    assert (failed.value.kind, failed.value.by_page) == ("crashed", False)


def test_silence_ends_at_the_deadline_with_checks_until_then(connect):
    checked = []
    one, _, _, clock = connect(deadline=3 * CHECK_SECONDS, check=lambda: checked.append(clock.now))
    with pytest.raises(DrawingFailed) as failed:
        one.wait(lambda: False)
    assert (failed.value.kind, failed.value.by_page) == ("timeout", False)
    assert clock.now == pytest.approx(3 * CHECK_SECONDS) and checked[-1] == clock.now and len(checked) == 3


def test_a_page_that_floods_the_connection_is_checked_and_ends_all_the_same(connect):
    checked = []
    one, socket, events, clock = connect(deadline=5.0, check=lambda: checked.append(clock.now))

    def flood():
        clock.now += 0.01
        return json.dumps({"method": "again", "params": {}})

    socket.recv = flood
    with pytest.raises(DrawingFailed):
        one.wait(lambda: False)
    assert 499 <= len(events) <= 501 and 9 <= len(checked) <= 11


def test_what_the_check_finds_at_the_deadline_comes_before_the_timeout(connect):
    def check():
        raise DrawingFailed("timeout", "it computed all the time", by_page=True)

    one, *_ = connect(deadline=0.1, check=check)
    with pytest.raises(DrawingFailed, match="computed all the time"):
        one.wait(lambda: False)


def test_a_new_page_has_its_own_deadline_and_no_answers_of_the_last_one(connect):
    one, _, _, clock = connect({"id": 1, "result": {}}, {"id": 2, "result": {}})
    one.send("a")
    one.call("b")
    assert one._answers
    one.start(clock.now + 1.0)
    assert not one._answers
    with pytest.raises(DrawingFailed):
        one.wait(lambda: False)
    assert clock.now == pytest.approx(1.0)
