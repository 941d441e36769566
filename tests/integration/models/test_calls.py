"""Single calls to real servers: what each way of failing means, what is sent, and which connections are used."""

import asyncio
import contextlib
import email.utils
import logging
import resource
import socket
import time

import pytest

from sweet_rl.errors import UserError
from sweet_rl.models.base import ModelError
from sweet_rl.models.calls import Calls
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal

KEY = "sk-very-secret"


def call(url: str, timeout: float = 20.0, key: str | None = None, times: int = 1) -> dict | ModelError:
    """The answer to the last of `times` calls, or its ModelError."""

    async def work():
        calls = Calls(key, timeout)
        try:
            for _ in range(times):
                answer = await calls.call(url, "/chat/completions", {"model": MODEL})
            return answer
        except ModelError as error:
            return error
        finally:
            await calls.close()

    return asyncio.run(work())


def answered(reply: Reply, **settings) -> dict | ModelError:
    with ApiServer(lambda _: reply) as server:
        return call(server.url, **settings)


def talk(pieces: list[bytes], pause: float, timeout: float) -> dict | ModelError:
    """The result of a call to a server that reads a request, then sends bytes, with a pause before each piece."""

    async def serve(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                await asyncio.sleep(pause)
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def work():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        calls = Calls(None, timeout)
        async with server:
            try:
                return await calls.call(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "/completions", {})
            except ModelError as error:
                return error
            finally:
                await calls.close()

    return asyncio.run(work())


@pytest.mark.parametrize(
    "status, message, code, kind, retryable",
    [
        (401, "key", None, "auth", False),
        (404, "no such model", None, "auth", False),
        (429, "slow down", None, "overloaded", True),
        (429, "pay first", "insufficient_quota", "auth", False),
        (503, "starting", None, "overloaded", True),
        (408, "late", None, "server", True),
        (500, "broken", None, "server", True),
        (304, "", None, "server", True),
        (413, "big", None, "context", False),
        (400, "This model's maximum context length is 7 tokens.", None, "context", False),
        (400, "no", "content_filter", "filtered", False),
        (400, "no", None, "refused", False),
    ],
)
def test_a_refusal_has_a_kind_and_may_be_worth_another_call(status, message, code, kind, retryable):
    body = {"error": {"message": message, "code": code, "param": "seed"}} if message else b""
    error = answered(Reply(body, status, {"retry-after": "2"}))
    assert (error.kind, error.retryable, error.__cause__.status_code) == (kind, retryable, status)
    assert error.retry_after == (2.0 if retryable else None)
    assert message in str(error)


def test_a_refusal_in_another_form_keeps_its_text():
    assert "the moon is full" in str(answered(Reply({"detail": "the moon is full"}, 422)))
    assert "seed" in str(answered(Reply({"detail": [{"loc": ["body", "seed"]}]}, 422)))
    assert "bad gateway" in str(answered(Reply(b"<html>bad gateway</html>", 502)))
    assert "no message" in str(answered(Reply(b"", 500)))


def test_a_wait_is_given_in_milliseconds_seconds_or_as_a_date():
    later = email.utils.formatdate(time.time() + 3600, usegmt=True)
    asked = [
        {"retry-after-ms": "250", "retry-after": "9"}, {"retry-after": "9"}, {"retry-after": "-9"}, {},
        {"retry-after": "soon"}, {"retry-after": "nan"}, {"retry-after": "inf"}, {"retry-after": later},
    ]  # fmt: skip
    *waits, date = [answered(Reply({}, 503, headers)).retry_after for headers in asked]
    assert waits == [0.25, 9.0, 0.0, None, None, None, None]
    assert 3000 < date <= 3600


def test_connections_that_are_refused_dropped_or_silent_are_told_apart():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refused = call(f"http://127.0.0.1:{closed.getsockname()[1]}/v1")
    nowhere = call("http://no-such-host.invalid/v1")
    dropped = [answered(Reply(drop=True)), talk([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"], 0.0, 20.0)]
    garbage = talk([b"220 mail.example.org ESMTP\r\n"], 0.0, 20.0)
    silent = talk([b""], 5.0, 0.2)
    assert all((error.kind, error.connection_refused) == ("connection", True) for error in (refused, nowhere))
    assert all((error.kind, error.connection_refused) == ("connection", False) for error in (*dropped, garbage))
    assert (silent.kind, silent.connection_refused) == ("timeout", False)
    assert all(error.retryable for error in (refused, nowhere, *dropped, garbage, silent))


def test_the_time_limit_is_of_the_whole_call_and_not_of_each_piece_of_the_response():
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    assert talk([head, *[b" "] * 1000], 0.05, 0.4).kind == "timeout"


def test_a_response_that_is_no_json_object_is_malformed_whatever_it_calls_itself():
    html = {"content-type": "text/html"}
    replies = [Reply(b"<html>"), Reply(b"<html>", headers=html), Reply(b'{"choices": ['), Reply(b"[1]"), Reply(b"")]
    for reply in (*replies, Reply(b"\xff\xfe", headers=html), Reply(b"", 204)):
        error = answered(reply)
        assert (error.kind, error.retryable) == ("malformed", True)
    assert answered(Reply(b'{"choices": []}', headers={"content-type": "text/plain"})) == {"choices": []}


def test_the_key_is_sent_and_is_in_no_error_and_no_log(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    caplog.set_level(logging.DEBUG)
    with ApiServer(lambda _: refusal(401, f"Incorrect API key: {KEY}")) as server:
        error, without = call(server.url, key=KEY), call(server.url)
    assert server.headers == [f"Bearer {KEY}", None]
    assert error.kind == without.kind == "auth" and str(error) == "HTTP 401: Incorrect API key: ***"
    shown = [record.getMessage() for record in caplog.records] + [str(error), repr(error)]
    assert shown and not any(KEY in text for text in shown)


def test_calls_to_several_servers_keep_one_connection_to_each():
    ports = []

    async def work(urls):
        calls = Calls(None, 20.0)
        for _ in range(5):
            for url, name in urls.items():
                answer = await calls.call(url, "/chat/completions", {})
                assert answer["choices"][0]["message"]["content"] == name
        await calls.close()

    with ApiServer(lambda _: chat_reply("one")) as one, ApiServer(lambda _: chat_reply("two")) as two:
        for server in (one, two):
            handler = server._http.RequestHandlerClass
            setup = handler.setup
            handler.setup = lambda self, setup=setup: (ports.append(self.client_address[1]), setup(self))
        asyncio.run(work({one.url: "one", two.url: "two"}))
    assert len(ports) == len(set(ports)) == 2


def test_a_process_without_free_file_descriptors_is_told_to_lower_its_concurrency():
    async def work(url):
        calls = Calls(None, 20.0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        calls._client(url)  # reads its certificates
        with socket.socket() as probe:
            lowest = probe.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            await calls.call(url, "/chat/completions", {})
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await calls.close()

    with ApiServer(lambda _: chat_reply("x")) as server, pytest.raises(UserError, match="lower --concurrency"):
        asyncio.run(work(server.url))
