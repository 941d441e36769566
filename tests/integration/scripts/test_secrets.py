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
from tests.support.command_line import call, write_rows

KEY = "sk-secret-key-0123"
PARTS = ("secret", "hunter2")


@pytest.fixture()
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_CREDENTIAL", KEY)  # no name that tells that it is a key
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-More: more-secret")
    tasks = [Task(f"Write number {n}: def f(x)", f"def f(x): return x * {n}", {"t": "f(1)"}) for n in range(2)]
    write_rows(tmp_path / "tasks.jsonl", [task.to_dict() for task in tasks])
    return tmp_path


def flags(place, server, **more):
    return {
        "agent_model": MODEL, "env_model": MODEL, "agent_hostname": server.url, "hostname": server.url,
        "agent_api_key_variable": "MY_CREDENTIAL", "input_path": place / "tasks.jsonl",
        "output_path": place / "run.jsonl", "cache": place / "cache", "concurrency": 1, **more,
    }  # fmt: skip


def all_text(place, *results):
    files = {str(path): path.read_bytes().decode(errors="replace") for path in place.rglob("*") if path.is_file()}
    return files | {f"output {n}": result.out + result.err for n, result in enumerate(results)}


def secrets_in(texts):
    return {name: text for name, text in texts.items() if any(part in text for part in PARTS)}


def repeated(status):
    """A refusal that repeats the key of the request."""
    return Reply({"detail": [{"key": KEY}], "message": f"{KEY} at http://me:hunter2@h"}, status)


@pytest.mark.parametrize("status", [400, 401])
def test_a_server_that_refuses_and_repeats_the_key_puts_it_nowhere(place, caplog, status):
    caplog.set_level(logging.DEBUG)
    with ApiServer(lambda body: repeated(status)) as server:
        request = json.dumps({"user": KEY, "metadata": {"to": "http://me:hunter2@h/"}})
        done = call("simulate_interactions.py", **flags(place, server, agent_request=request))
        again = call(
            "simulate_interactions.py", **flags(place, server, agent_request=request, seed=5)
        )  # other settings
    assert done.code == again.code != 0 or status == 400
    assert f"Bearer {KEY}" in server.headers
    assert "HTTP" in "".join(all_text(place, done).values())
    assert not secrets_in(all_text(place, done, again) | {"log": caplog.text})


def test_a_key_of_openai_and_what_goes_with_it_reach_no_other_server(place):
    seen = []

    def answer(body):
        return chat_reply("I WANT TO ANSWER:\ndef f(x): return 1")

    with ApiServer(answer) as server:
        handler = server._http.RequestHandlerClass
        for method in ("do_GET", "do_POST"):
            kept = getattr(handler, method)
            setattr(handler, method, lambda self, kept=kept: (seen.append(str(self.headers)), kept(self)))
        done = call("simulate_interactions.py", **flags(place, server, agent_api_key_variable=None))
    assert done.code == 0, done.err
    assert seen and not any("secret" in headers or "uthorization" in headers for headers in seen)


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_not_followed(status):
    with ApiServer(lambda _: chat_reply("x")) as other:
        location = f"{other.url}/chat/completions?key={KEY}"
        with ApiServer(lambda _: Reply(b"", status, {"location": location})) as server:

            async def work():
                client = Server(server.url, KEY, pause=0.0, patience=0.0)
                try:
                    await client.post("/chat/completions", {})
                finally:
                    await client.close()

            with pytest.raises(ModelError, match="redirects to http.*/chat/completions") as error:
                asyncio.run(work())
    assert "secret" not in str(error.value) and not other.requests


@pytest.mark.parametrize(
    "changes",
    [
        {"agent_hostname": "http://me:hunter2@127.0.0.1:9/v1"},
        {"hostname": "me:hunt,er2hunter2@127.0.0.1:9"},
        {"hostname": "http://127.0.0.1:9/v1?key=hunter2"},
        {"api_key_variable": "sk-given-in-place-of-its-name-hunter2"},
    ],
)
def test_what_is_refused_is_neither_shown_nor_written(place, changes):
    with ApiServer(lambda _: chat_reply("x")) as server:
        done = call("simulate_interactions.py", **flags(place, server, **changes))
    assert done.code == 2 and not server.requests
    assert [path.name for path in place.iterdir()] == ["tasks.jsonl"] and not secrets_in(all_text(place, done))
