"""`sweet-rl colbench` as an evaluator types it, with an API on this machine: no call is paid twice."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from sweet_rl.runs.hub import _downloaded
from sweet_rl.runs.records import Task
from tests.support.api_server import ApiServer, Reply, chat_reply, refusal
from tests.support.command_line import call, process, read_rows, write_rows
from tests.support.hub_server import HubServer, use_hub
from tests.support.tables import unpadded

MODELS, HUMAN = ("org/model-a", "model-b"), "the-human"
TASKS = [Task(f"Add {n}.", f"def f(x):\n    return x + {n}\n", {"a": "f(1)"}, f"t{n}") for n in range(4)]
GREETING = "test of the connection"


class Api:
    """An API that counts what it answers and, at `stop` answers, answers nothing more until it is released.

    Models always ask, with `answers` only once. A reply is that of its model, so that no two prompts are equal.
    """

    def __init__(self, answers: bool = False, stop: int = 10**6) -> None:
        self.answers, self.stop = answers, stop
        self.paid: list[str] = []
        self.lock, self.released = threading.Lock(), threading.Event()
        self.server = ApiServer(self.answer)
        self.server.models = [*MODELS, HUMAN]

    def answer(self, body: dict) -> Reply:
        with self.lock:
            held = len(self.paid) >= self.stop
            if not held:
                self.paid.append(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest())
        if held:
            self.released.wait(30)
            return Reply(drop=True)
        messages = body["messages"]
        if GREETING in messages[-1]["content"]:
            return chat_reply("Yes.")
        if "<hidden_code>" in messages[-1]["content"]:
            return chat_reply("It is a number.")
        asked = sum(message["role"] == "assistant" for message in messages)
        if self.answers and asked == 1:
            number = int(messages[0]["content"].split("Add ")[1].split(".")[0])
            return chat_reply(f"I WANT TO ANSWER:\n```python\n{TASKS[number].ground_truth}```")
        return chat_reply(f"{body['model']} asks: what is number {asked}?")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL_KEY", "key-of-the-models")
    monkeypatch.setenv("HUMAN_KEY", "key-of-the-human")
    write_rows(tmp_path / "tasks.jsonl", TASKS)
    return tmp_path


def flags(api: Api, models: tuple[str, ...] = MODELS, **more) -> dict:
    return {
        "model": ",".join(models), "model_hostname": api.server.url, "model_api_key_variable": "MODEL_KEY",
        "human": HUMAN, "human_hostname": api.server.url, "human_api_key_variable": "HUMAN_KEY", "limit": 4,
        "tasks": "tasks.jsonl", "output_dir": "out",
    } | more  # fmt: skip


def stored(cache: Path) -> int:
    """The number of replies in a cache."""
    path = cache / "calls.sqlite"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as store:
        try:
            return store.execute("SELECT count(*) FROM calls").fetchone()[0]
        except sqlite3.OperationalError:  # before the table is made
            return 0


def ceilings(text: str) -> list[int]:
    """The calls of each line of an estimate."""
    return [int(number.replace(",", "")) for number in re.findall(r"at most ([\d,]+) calls", text)]


def test_two_models_killed_in_the_middle_cost_what_the_estimate_says_and_nothing_is_paid_twice(folder):
    api = Api(stop=50)
    with api.server:
        words, environment = process("colbench.py", **flags(api))
        with open("first.out", "w") as out:
            running = subprocess.Popen(words, env=environment, stdout=out, stderr=subprocess.STDOUT)
            try:
                until = time.monotonic() + 60
                while stored(folder / "out" / "calls") < 50 and running.poll() is None and time.monotonic() < until:
                    time.sleep(0.01)
            finally:
                running.kill()
                running.wait()
        assert len(api.paid) == stored(folder / "out" / "calls") == 50, Path("first.out").read_text()
        api.stop = 10**6
        api.released.set()
        done = call("colbench.py", **flags(api))
        assert done.code == 0, done.err
        assert ceilings(Path("first.out").read_text()) == ceilings(done.out) == [40, 40, 72]
        assert len(api.paid) == len(set(api.paid)) == 152
        again = call("colbench.py", **flags(api))
        assert again.code == 0 and len(api.paid) == 152
        assert again.out.count("already complete") == 4
    assert set(api.server.headers) == {"Bearer key-of-the-models", "Bearer key-of-the-human"}
    assert {row["ending"] for row in read_rows(folder / "out/first_4/org_model-a.jsonl")} == {"turn_limit"}
    table = json.loads((folder / "out/first_4/comparison.json").read_text())
    assert [run["name"] for run in table["runs"]] == list(MODELS) and table["baselines"] == [MODELS[0]]
    shown = done.out.partition("paper: success %")[2]
    assert all(re.search(rf"^{name} ", shown, re.MULTILINE) for name in (*MODELS, "SWEET-RL"))
    assert f"simulated human: {HUMAN}" in shown
    assert all("<html" in (folder / f"out/first_4/{name}.html").read_text() for name in ("org_model-a", "model-b"))


def test_the_tasks_come_from_the_hub_and_a_right_answer_is_a_success(folder, monkeypatch):
    api = Api(answers=True)
    rows = (folder / "tasks.jsonl").read_bytes()
    _downloaded.cache_clear()
    hub = HubServer({"datasets/facebook/collaborative_agent_bench/backend_tasks/test.jsonl": rows})
    with api.server, hub:
        use_hub(monkeypatch, hub, folder / "hub")
        done = call("colbench.py", **flags(api, MODELS[:1], tasks=None, limit=3))
    _downloaded.cache_clear()
    assert done.code == 0, done.err
    (run,) = json.loads((folder / "out/first_3/comparison.json").read_text())["runs"]
    assert run["success"]["mean"] == 1.0 and len(api.paid) == 3 * 3
    assert [row["human"]["name"] for row in read_rows(folder / "out/first_3/org_model-a.graded.jsonl")] == [HUMAN] * 3


def test_dialogues_that_failed_are_played_and_graded_again_on_request_and_the_others_are_kept(folder):
    api = Api(answers=True)
    usual = api.server.answer
    broken = refusal(400, "this prompt is refused")
    api.server.answer = lambda body: broken if "Add 2." in body["messages"][0]["content"] else usual(body)
    with api.server:
        first = call("colbench.py", **flags(api, MODELS[:1]))
        assert first.code == 1 and "1 of 4 dialogues failed" in first.err, first.err
        assert "| 1 of 4 |" in unpadded((folder / "out/first_4/results.md").read_text())
        api.server.answer = usual
        again = call("colbench.py", **flags(api, MODELS[:1], retry_failed=True))
        assert again.code == 0, again.err
    rows = read_rows(folder / "out/first_4/org_model-a.graded.jsonl")
    assert [row["reward"] for row in rows] == [1.0] * 4 and len(api.paid) == len(set(api.paid)) == 4 * 3
    assert json.loads((folder / "out/first_4/comparison.json").read_text())["tasks"] == 4
