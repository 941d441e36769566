"""Real servers of one model: what each failure means, servers that die and come back, and which one is called."""

import asyncio
import contextlib
import gzip
import logging
import resource
import socket
import threading
import time
from collections.abc import Iterable

import pytest

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.models.servers import Servers
from sweet_rl.runs.errors import UserError
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, in_turn, refusal
from tests.support.launched import free_port

KEY = "sk-very-secret"
ASKED = [{"role": "user", "content": "how many?"}]


def call(url: str, timeout: float = 20.0, key: str | None = None) -> dict | ModelError:
    """The answer to one call, or its ModelError."""

    async def work():
        servers = Servers([url], key, timeout, pause=0.01, patience=0.2)
        try:
            return await servers.request(servers.all[0], "/chat/completions", {"model": MODEL}, lambda answer: answer)
        except ModelError as error:
            return error
        finally:
            await servers.close()

    return asyncio.run(work())


def answered(reply: Reply, **settings) -> dict | ModelError:
    with ApiServer(lambda _: reply) as server:
        return call(server.url, **settings)


def talk(pieces: Iterable[bytes], pause: float = 0.0, timeout: float = 20.0) -> dict | ModelError:
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
        servers = Servers([f"127.0.0.1:{server.sockets[0].getsockname()[1]}"], timeout=timeout)
        async with server:
            try:
                return await servers.request(servers.all[0], "/completions", {}, lambda answer: answer)
            except ModelError as error:
                return error
            finally:
                await servers.close()

    return asyncio.run(work())


async def replies(model: OpenAIServer, count: int) -> list[str]:
    try:
        return [one.text for (one,) in await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(count)))]
    finally:
        await model.close()


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
    error = answered(Reply(body, status))
    assert (error.kind, error.retryable, error.__cause__.status_code) == (kind, retryable, status)
    assert message in str(error)


def test_a_refusal_in_another_form_keeps_its_text():
    assert "the moon is full" in str(answered(Reply({"detail": "the moon is full"}, 422)))
    assert "seed" in str(answered(Reply({"detail": [{"loc": ["body", "seed"]}]}, 422)))
    assert "bad gateway" in str(answered(Reply(b"<html>bad gateway</html>", 502)))
    assert "no message" in str(answered(Reply(b"", 500)))


def test_connections_that_are_refused_dropped_or_silent_are_told_apart():
    nowhere = [call(f"http://127.0.0.1:{free_port()}/v1"), call("http://no-such-host.invalid/v1")]
    dropped = [answered(Reply(drop=True)), talk([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"])]
    garbage = talk([b"220 mail.example.org ESMTP\r\n"])
    silent = talk([b""], 5.0, 0.2)
    assert all(error.kind == "connection" and "cannot be reached" in str(error) for error in nowhere)
    assert all(error.kind == "connection" and "broke" in str(error) for error in (*dropped, garbage))
    assert silent.kind == "timeout"
    assert all(error.retryable for error in (*nowhere, *dropped, garbage, silent))


def test_a_server_that_sends_a_byte_now_and_then_is_late_all_the_same():
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    error = talk([head, *[b"1\r\n\n\r\n"] * 100], pause=0.1, timeout=0.4)
    assert (error.kind, error.retryable) == ("timeout", True) and "within 0.4 s" in str(error)


def test_a_403_after_other_answers_is_about_one_dialogue_and_the_first_one_about_the_key():
    async def kinds(url):
        servers, found = Servers([url], pause=0.01), []
        for _ in range(3):
            try:
                found.append(await servers.call("/chat/completions", {}, lambda answer: "answered"))
            except ModelError as error:
                found.append(error.kind)
        await servers.close()
        return found

    blocked = Reply(b"<html>Sorry, you have been blocked</html>", 403)
    with ApiServer(in_turn(*[blocked] * 3, chat_reply("x"), blocked)) as server:
        assert asyncio.run(kinds(server.url)) == ["auth", "answered", "refused"]


def test_an_empty_account_is_not_asked_again_and_a_rate_limit_inside_a_success_is_waited_for():
    empty = Reply({"error": {"message": "Insufficient credits", "code": 402}})
    with ApiServer(lambda _: empty) as server, pytest.raises(ModelError, match="Insufficient credits") as caught:
        asyncio.run(replies(OpenAIServer(MODEL, [server.url]), 1))
    assert caught.value.fatal and len(server.requests) == 1
    limited = Reply({"error": {"message": "free-models-per-min", "code": 429}})
    with ApiServer(in_turn(*[limited] * 5, chat_reply("x"))) as server:
        assert asyncio.run(replies(OpenAIServer(MODEL, [server.url], pause=0.01), 1)) == ["x"]


def test_a_response_that_is_no_json_object_is_malformed_whatever_it_calls_itself():
    html = {"content-type": "text/html"}
    bodies = [Reply(b"<html>"), Reply(b"<html>", headers=html), Reply(b'{"choices": ['), Reply(b"[1]"), Reply(b"")]
    for reply in (*bodies, Reply(b"\xff\xfe", headers=html), Reply(b"", 204)):
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


def test_calls_in_turn_keep_one_connection():
    ports = []
    with ApiServer(lambda _: chat_reply("one")) as server:
        handler = server._http.RequestHandlerClass
        setup = handler.setup
        handler.setup = lambda self: (ports.append(self.client_address[1]), setup(self))

        async def work():
            model = OpenAIServer(MODEL, [server.url])
            texts = [(await model.complete(ASKED, Sampling()))[0].text for _ in range(10)]
            await model.close()
            return texts

        assert asyncio.run(work()) == ["one"] * 10
    assert len(ports) == 1


def test_a_process_without_free_file_descriptors_is_told_to_lower_its_concurrency():
    async def work(url):
        servers = Servers([url])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.socket() as probe:
            lowest = probe.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            await servers.call("/chat/completions", {}, lambda answer: answer)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await servers.close()

    with ApiServer(lambda _: chat_reply("x")) as server, pytest.raises(UserError, match="--concurrency"):
        asyncio.run(work(server.url))


def test_calls_are_spread_over_the_servers():
    slow = in_turn(Reply(chat_reply("x").body, wait=0.2))
    with ApiServer(slow) as one, ApiServer(slow) as two:
        asyncio.run(replies(OpenAIServer(MODEL, [one.url, two.url]), 10))
        assert (len(one.requests), len(two.requests)) == (5, 5)


def test_a_server_has_at_most_so_many_calls_in_progress():
    busy, most, lock = 0, 0, threading.Lock()

    def answer(body):
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        with lock:
            busy -= 1
        return chat_reply("x")

    with ApiServer(answer) as server:
        assert asyncio.run(replies(OpenAIServer(MODEL, [server.url], concurrency=3), 20)) == ["x"] * 20
    assert most == 3


@pytest.mark.parametrize(
    "trouble",
    [refusal(503, "full"), Reply(b"<html>"), refusal(404, "another model")],
    ids=["503", "malformed", "404"],
)
def test_a_server_that_only_fails_is_named_once_and_no_call_is_lost(trouble, caplog):
    with ApiServer(lambda _: trouble) as bad, ApiServer(lambda _: chat_reply("x")) as good:
        model = OpenAIServer(MODEL, [bad.url, good.url], concurrency=4, pause=0.01)
        assert asyncio.run(replies(model, 40)) == ["x"] * 40
        assert len(bad.requests) <= 3 * 20
        assert len([record for record in caplog.records if bad.url in record.getMessage()]) == 1


def test_a_stalled_server_is_a_timeout_and_the_other_one_takes_over():
    with ApiServer(lambda _: Reply({}, wait=2.0)) as slow, ApiServer(lambda _: chat_reply("x")) as good:
        model = OpenAIServer(MODEL, [slow.url, good.url], timeout=0.5)
        assert asyncio.run(replies(model, 12)) == ["x"] * 12
        assert model.summary()["servers"][slow.url]["failed"]["timeout"] >= 3


def test_a_dead_server_costs_no_call_and_is_used_when_it_starts():
    port = int(free_port())

    async def work(url, late):
        model = OpenAIServer(MODEL, [f"http://127.0.0.1:{port}/v1", url], pause=0.01, timeout=5)
        await model.check()
        found = await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(20)))
        with late:
            until = time.monotonic() + 60
            while not late.requests and time.monotonic() < until:
                await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(4)))
                await asyncio.sleep(0.02)
        await model.close()
        return [reply.text for (reply,) in found]

    late = ApiServer(lambda _: chat_reply("late"), port)
    with ApiServer(lambda _: chat_reply("here")) as server:
        assert asyncio.run(work(server.url, late)) == ["here"] * 20
    assert late.requests


def test_calls_wait_for_the_only_server_while_it_restarts():
    port = int(free_port())

    async def work():
        model = OpenAIServer(MODEL, [f"127.0.0.1:{port}"], pause=0.05)
        calls = asyncio.ensure_future(replies(model, 8))
        await asyncio.sleep(0.5)
        assert not calls.done()
        with ApiServer(lambda _: chat_reply("x"), port):
            return await calls

    assert asyncio.run(work()) == ["x"] * 8


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (None, "no server has answered .*Start one"),
        (
            refusal(429, "come back tomorrow", retry_after="86400"),
            "has given an answer .*come back tomorrow.*See to that",
        ),
    ],
)
def test_without_any_answer_for_the_time_of_our_patience_the_run_ends_with_a_message(trouble, message):
    with contextlib.ExitStack() as stack:
        url = f"http://127.0.0.1:{free_port()}/v1"
        if trouble is not None:
            url = stack.enter_context(ApiServer(lambda _: trouble)).url
        model, start = OpenAIServer(MODEL, [url], pause=0.05, patience=0.5), time.monotonic()
        with pytest.raises(UserError, match=message):
            asyncio.run(replies(model, 4))
        assert time.monotonic() - start >= 0.5


def test_a_key_refused_for_a_moment_is_no_end_but_one_never_taken_is():
    def answer(body, seen=[]):  # noqa: B006
        seen.append(body)
        return refusal(401, "who are you?") if len(seen) == 2 else chat_reply("x")

    with ApiServer(answer) as server:
        model = OpenAIServer(MODEL, [server.url], concurrency=1, pause=0.01)
        assert asyncio.run(replies(model, 3)) == ["x"] * 3
    with ApiServer(lambda _: refusal(401, "who are you?")) as server:
        with pytest.raises(ModelError) as caught:
            asyncio.run(replies(OpenAIServer(MODEL, [server.url]), 1))
        assert caught.value.kind == "auth" and len(server.requests) == 1


def test_retry_after_is_honoured():
    start = time.monotonic()
    with ApiServer(in_turn(refusal(429, "slow down", retry_after="0.4"), chat_reply("x"))) as server:
        assert asyncio.run(replies(OpenAIServer(MODEL, [server.url]), 1)) == ["x"]
    assert time.monotonic() - start >= 0.4


def test_a_server_that_fails_gets_one_call_at_a_time_until_it_answers():
    busy, most, lock, well = 0, 0, threading.Lock(), threading.Event()

    def answer(body):
        nonlocal busy, most
        if well.is_set():
            return chat_reply("well")
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.05)
        with lock:
            busy -= 1
        return Reply(b"<html>")

    async def work(urls):
        model = OpenAIServer(MODEL, urls, pause=0.01)
        await model.complete(ASKED, Sampling())  # the first server fails it
        found = await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(30)))
        well.set()
        found += await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(30)))
        summary = model.summary()["servers"]
        await model.close()
        return {reply.text for (reply,) in found}, summary

    with ApiServer(answer) as bad, ApiServer(lambda _: Reply(chat_reply("x").body, wait=0.1)) as good:
        texts, summary = asyncio.run(work([bad.url, good.url]))
    assert texts == {"well", "x"} and most == 1
    assert summary[bad.url]["failed"].keys() == {"malformed"} and "failed" not in summary[good.url]


def test_no_request_goes_to_a_server_before_the_time_that_it_asked_for():
    limited = in_turn(refusal(429, "slow down", retry_after="0.5"), chat_reply("x"))
    times = []

    def answer(body):
        times.append(time.monotonic())
        return limited(body)

    async def work(url):
        model = OpenAIServer(MODEL, [url])
        first = asyncio.ensure_future(model.complete(ASKED, Sampling()))
        while not (waiting := model.servers.waiting()):
            await asyncio.sleep(0.01)
        later = [model.complete(ASKED, Sampling()) for _ in range(4)]  # they have places of their own
        texts = [reply.text for (reply,) in await asyncio.gather(first, *later)]
        await model.close()
        return texts, waiting, model.summary()["servers"][url]["rate_limits"]

    with ApiServer(answer) as server:
        texts, waiting, limits = asyncio.run(work(server.url))
    assert texts == ["x"] * 5 and limits == 1 and "rate limit (429) 1 times" in waiting
    assert len(times) == 6 and min(times[1:]) - times[0] >= 0.4


def test_pauses_grow_and_are_not_the_same_for_all_calls(monkeypatch):
    pauses, sleep = [], asyncio.sleep

    async def note(seconds):
        if seconds > 0:
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("sweet_rl.models.servers.asyncio.sleep", note)
    with ApiServer(lambda _: Reply(b"<html>")) as server, contextlib.suppress(ModelError):
        asyncio.run(replies(OpenAIServer(MODEL, [server.url], pause=4.0), 1))
    first, second = pauses
    assert 2 <= first <= 4 <= second <= 8


def test_a_cancelled_call_frees_its_place_and_is_no_failure_of_the_server():
    reached, go_on = threading.Event(), threading.Event()

    def answer(body):
        reached.set()
        go_on.wait(60)
        return chat_reply("x")

    async def work(url):
        model = OpenAIServer(MODEL, [url], concurrency=1)
        cancelled = asyncio.ensure_future(model.complete(ASKED, Sampling()))
        await asyncio.to_thread(reached.wait, 60)
        waiting = asyncio.ensure_future(model.complete(ASKED, Sampling()))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        go_on.set()
        (reply,) = await asyncio.wait_for(waiting, 60)
        summary = model.summary()["servers"][url]
        await model.close()
        return reply.text, summary["calls"], "failed" in summary

    with ApiServer(answer) as server:
        assert asyncio.run(work(server.url)) == ("x", 1, False)


def answers_of(size: int, limit: int, monkeypatch, packed: bool = False, path: str = "/completions", body: dict = {}):  # noqa: B006
    """What a client makes of an answer of so many bytes, the least limit being `limit`, and the server's address."""
    text = b'{"a": "' + b"x" * (size - 9) + b'"}'
    monkeypatch.setattr("sweet_rl.models.servers.ANSWER_BYTES", limit)
    headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if packed else {})
    reply = Reply(gzip.compress(text) if packed else text, headers=headers)

    async def work(server):
        servers = Servers([server.url], pause=0.0)
        try:
            if path == "/models":
                return await servers.models(servers.all[0])
            return len((await servers.request(servers.all[0], path, body, dict))["a"])
        except ModelError as error:
            return error
        finally:
            await servers.close()

    with ApiServer(lambda _: reply) as server:
        server.listing = reply
        return asyncio.run(work(server)), server


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_an_answer_has_at_most_so_many_bytes_also_unpacked(monkeypatch, packed):
    request = 64 * len(b"{}")
    whole, _ = answers_of(100_000 + request, 100_000, monkeypatch, packed)
    assert whole == 100_000 + request - 9
    error, server = answers_of(100_001 + request, 100_000, monkeypatch, packed)
    assert (error.kind, error.retryable) == ("malformed", True)
    assert f"the answer of {server.url} is larger than 0 MiB" in str(error)


def test_a_larger_request_may_have_a_larger_answer(monkeypatch):
    body = {"prompt": [12345] * 1000}  # prompt_logprobs have an entry for each
    assert answers_of(110 * 1000, 0, monkeypatch, body=body)[0] == 110 * 1000 - 9
    assert isinstance(answers_of(110 * 1000, 0, monkeypatch, body={"prompt": []})[0], ModelError)


def test_a_list_of_models_without_end_is_none(monkeypatch):
    assert answers_of(1000, 1000, monkeypatch, path="/models")[0] == []
    assert answers_of(100_000, 1000, monkeypatch, path="/models")[0] == []


@pytest.mark.parametrize("status", ["200 OK", "500 Oops"])
def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch, status):
    monkeypatch.setattr("sweet_rl.models.servers.ANSWER_BYTES", 1 << 16)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    sent = []

    def pieces():
        yield head
        while True:
            sent.append(1)
            yield b"8000\r\n" + b" " * 0x8000 + b"\r\n"

    error = talk(pieces())
    assert error.kind == "malformed" and "larger than 0 MiB" in str(error) and len(sent) < 1000
