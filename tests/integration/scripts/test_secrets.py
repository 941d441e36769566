"""Keys planted in every place of a real rollout, with servers that refuse, redirect and repeat what they got."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from sweet_rl.models.base import ModelError
from sweet_rl.models.server import Server
from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply
from tests.support.command_line import call, check_call, write_rows

KEY = "sk-secret-key-0123"
PARTS = ("secret", "hunter2")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_CREDENTIAL", KEY)  # no name that tells that it is a key
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-More: more-secret")
    write_rows(tmp_path / "tasks.jsonl", [Task("Write f(x)", "def f(x): return x", {"t": "f(1)"})])
    return tmp_path


def flags(place, server, **more):
    return {
        "agent_model": MODEL, "env_model": MODEL, "agent_hostname": server.url, "hostname": server.url,
        "input_path": place / "tasks.jsonl", "output_path": place / "run.jsonl", "cache": place / "cache", **more,
    }  # fmt: skip


def texts_with_a_secret(place, *printed: str) -> list[str]:
    written = [path.read_bytes().decode(errors="replace") for path in place.rglob("*") if path.is_file()]
    return [text for text in [*written, *printed] if any(part in text for part in PARTS)]


def test_a_server_that_refuses_and_repeats_the_key_puts_it_nowhere(place, caplog):
    caplog.set_level(logging.DEBUG)
    repeated = Reply({"detail": [{"key": KEY}], "message": f"{KEY} at http://me:hunter2@h"}, 401)
    request = json.dumps({"user": KEY, "metadata": {"to": "http://me:hunter2@h/"}})
    with ApiServer(lambda body: repeated) as server:
        given = flags(place, server, agent_api_key_variable="MY_CREDENTIAL", agent_request=request)
        done = call("simulate_interactions.py", **given)
        again = call("simulate_interactions.py", **given, seed=5)  # other settings
    assert f"Bearer {KEY}" in server.headers and "HTTP" in done.err
    assert texts_with_a_secret(place, done.out, done.err, again.out, again.err, caplog.text) == []


def test_a_key_of_openai_and_what_goes_with_it_reach_no_other_server(place):
    seen = []
    with ApiServer(lambda body: chat_reply("I WANT TO ANSWER:\ndef f(x): return 1")) as server:
        handler = server._http.RequestHandlerClass
        for method in ("do_GET", "do_POST"):
            kept = getattr(handler, method)
            setattr(handler, method, lambda self, kept=kept: (seen.append(str(self.headers)), kept(self)))
        check_call("simulate_interactions.py", **flags(place, server))
    assert seen and not any("secret" in headers or "uthorization" in headers for headers in seen)


def test_a_redirect_is_not_followed():
    async def post(url: str) -> None:
        client = Server(url, KEY, pause=0.0, patience=0.0)
        try:
            await client.post("/chat/completions", {})
        finally:
            await client.close()

    with ApiServer(lambda _: chat_reply("x")) as other:
        location = f"{other.url}/chat/completions?key={KEY}"
        with ApiServer(lambda _: Reply(b"", 307, {"location": location})) as server:
            with pytest.raises(ModelError, match="redirects to http.*/chat/completions") as error:
                asyncio.run(post(server.url))
    assert "secret" not in str(error.value) and not other.requests


@pytest.mark.parametrize(
    "changes",
    [
        {"agent_hostname": "http://me:hunter2@127.0.0.1:9/v1"},
        {"hostname": "http://127.0.0.1:9/v1?key=hunter2"},
        {"api_key_variable": "sk-given-in-place-of-its-name-hunter2"},
    ],
)
def test_what_is_refused_is_neither_shown_nor_written(place, changes):
    with ApiServer(lambda _: chat_reply("x")) as server:
        done = call("simulate_interactions.py", **flags(place, server, **changes))
    assert done.code == 2 and not server.requests and texts_with_a_secret(place, done.out, done.err) == []
    assert [path.name for path in place.iterdir()] == ["tasks.jsonl"]
