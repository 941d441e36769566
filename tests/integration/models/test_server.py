"""Real servers: what each failure means, and servers that die and come back."""

import asyncio
import contextlib
import logging
import threading
import time

import pytest

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.models.server import Server
from sweet_rl.runs.errors import UserError
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal
from tests.support.command_line import free_port

KEY = "sk-very-secret"
ASKED = [{"role": "user", "content": "how many?"}]


def call(url: str, timeout: float = 20.0, key: str | None = None, retries: int = 0) -> dict | ModelError:
    """The answer to one call, or its ModelError."""

    async def work():
        server = Server(url, key, timeout, pause=0.01, patience=0.0, retries=retries)
        try:
            return await server._post("/chat/completions", {"model": MODEL})
        except ModelError as error:
            return error
        finally:
            await server.close()

    return asyncio.run(work())


def answered(reply: Reply, **settings) -> dict | ModelError:
    with ApiServer(lambda _: reply) as server:
        return call(server.url, **settings)


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
        (500, "broken", None, "server", True),
        (403, "not for you", None, "refused", False),
        (400, "This model's maximum context length is 7 tokens.", None, "context", False),
        (400, "Input is too long.", "context_length_exceeded", "context", False),
        (400, "no", "content_filter", "filtered", False),
        (400, "no", None, "refused", False),
    ],
)
def test_a_refusal_has_a_kind_and_may_be_worth_another_call(status, message, code, kind, retryable):
    error = answered(Reply({"error": {"message": message, "code": code, "param": "seed"}}, status))
    assert (error.kind, error.retryable, error.__cause__.status_code) == (kind, retryable, status)
    assert message in str(error)


def test_connections_that_are_refused_dropped_or_silent_are_told_apart():
    for error in (call(f"http://127.0.0.1:{free_port()}/v1"), answered(Reply(drop=True))):
        assert error.kind == "connection" and error.retryable and "cannot be reached" in str(error)
    silent = answered(Reply(wait=1.0), timeout=0.2)
    assert silent.kind == "timeout" and silent.retryable
    for reply in (Reply(b"<html>"), Reply(b"[1]"), Reply(b"")):
        assert answered(reply).kind == "malformed"


def test_the_key_is_sent_and_is_in_no_error_and_no_log(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    caplog.set_level(logging.DEBUG)
    with ApiServer(lambda _: refusal(401, f"Incorrect API key: {KEY}")) as server:
        error, without = call(server.url, key=KEY), call(server.url)
    assert server.headers == [f"Bearer {KEY}", None]
    assert error.kind == without.kind == "auth" and "Incorrect API key: ***" in str(error)
    shown = [record.getMessage() for record in caplog.records] + [str(error), repr(error)]
    assert shown and not any(KEY in text for text in shown)


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
        assert asyncio.run(replies(OpenAIServer(MODEL, server.url, concurrency=3), 20)) == ["x"] * 20
    assert most == 3


def test_calls_wait_for_a_server_while_it_restarts_and_the_summary_counts_it():
    port = int(free_port())

    async def work():
        server = Server(f"127.0.0.1:{port}", pause=0.05, retries=0)
        calls = [asyncio.ensure_future(server.post("/completions", {})) for _ in range(8)]
        await asyncio.sleep(0.5)
        assert not any(call.done() for call in calls)
        with ApiServer(lambda _: chat_reply("x"), port):
            await asyncio.gather(*calls)
        await server.close()
        return server.summary()[f"http://127.0.0.1:{port}/v1"]

    summary = asyncio.run(work())
    assert summary["failed"]["connection"] == summary["calls"] - 8


@pytest.mark.parametrize(
    ("trouble", "message"),
    [(None, "cannot be reached"), (refusal(429, "come back tomorrow", retry_after="86400"), "come back tomorrow")],
)
def test_without_any_answer_for_the_time_of_our_patience_the_run_ends_with_a_message(trouble, message):
    async def work(url):
        server = Server(url, pause=0.05, patience=0.5, retries=1)
        try:
            await asyncio.gather(*(server.post("/completions", {}) for _ in range(4)))
        finally:
            await server.close()

    with contextlib.ExitStack() as stack:
        url = f"http://127.0.0.1:{free_port()}/v1"
        if trouble is not None:
            url = stack.enter_context(ApiServer(lambda _: trouble)).url
        start = time.monotonic()
        with pytest.raises(UserError, match=f"no call was answered .*{message}.*Start the server.* --patience"):
            asyncio.run(work(url))
        assert time.monotonic() - start >= 0.5


@pytest.mark.parametrize(("name", "value"), [("HTTPS_PROXY", "http://:x"), ("SSL_CERT_FILE", "/nowhere")])
def test_a_variable_that_the_client_cannot_use_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=f"{name}.* cannot be used .*unset"):
        Server("node1")
