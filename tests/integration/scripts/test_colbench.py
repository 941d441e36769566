"""`sweet-rl colbench` as an evaluator types it, with an API on this machine: no call is paid twice."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from sweet_rl.dialogues import released
from sweet_rl.runs.records import Task
from tests.support.api_server import ApiServer, Reply, chat_reply, refusal
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import call, check_call, kill_when, read_rows, write_rows
from tests.support.protocol_files import AGENT, BACKEND, protocol_files
from tests.support.protocol_files import HUMAN as PROMPT

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
                self.paid.append(sha256(json.dumps(body, sort_keys=True)))
        if held:
            self.released.wait(30)
            return Reply(drop=True)
        messages = body["messages"]
        if GREETING in messages[-1]["content"]:
            return chat_reply("Yes.")
        if body["model"] == HUMAN:
            return chat_reply("It is a number.")
        asked = sum(message["role"] == "assistant" for message in messages)
        if self.answers and asked == 1:
            (number,) = (n for n, task in enumerate(TASKS) if f"Add {n}." in str(messages[:2]))
            return chat_reply(f"I WANT TO ANSWER:\n{TASKS[number].ground_truth}")
        return chat_reply(f"{body['model']} asks: what is number {asked}?")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
        assert ceilings(check_call("colbench.py", **flags(api), estimate=True)) == [40, 40, 72] and api.paid == []
        kill_when(lambda: stored(folder / "out" / "calls") >= 50, "colbench.py", **flags(api))
        assert len(api.paid) == stored(folder / "out" / "calls") == 50
        api.stop = 10**6
        api.released.set()
        check_call("colbench.py", **flags(api))
        assert len(api.paid) == len(set(api.paid)) == 152
        again = check_call("colbench.py", **flags(api))
        assert len(api.paid) == 152 and again.count("already complete") == 4
    assert set(api.server.headers) == {"Bearer key-of-the-models", "Bearer key-of-the-human"}
    assert {row["ending"] for row in read_rows(folder / "out/first_4/org_model-a.jsonl")} == {"turn_limit"}
    table = json.loads((folder / "out/first_4/comparison.json").read_text())
    assert [run["name"] for run in table["runs"]] == list(MODELS) and table["baselines"] == [MODELS[0]]
    assert all("<html" in (folder / f"out/first_4/{name}.html").read_text() for name in ("org_model-a", "model-b"))


def test_dialogues_that_failed_are_played_and_graded_again_on_request_and_the_others_are_kept(folder):
    api = Api(answers=True)
    usual = api.server.answer
    broken = refusal(400, "this prompt is refused")
    api.server.answer = lambda body: broken if "Add 2." in body["messages"][0]["content"] else usual(body)
    with api.server:
        first = call("colbench.py", **flags(api, MODELS[:1]))
        assert first.code == 1 and "1 of 4 dialogues failed" in first.err, first.err
        api.server.answer = usual
        check_call("colbench.py", **flags(api, MODELS[:1], retry_failed=True))
    rows = read_rows(folder / "out/first_4/org_model-a.graded.jsonl")
    assert [row["reward"] for row in rows] == [1.0] * 4 and len(api.paid) == len(set(api.paid)) == 4 * 3


def test_the_released_protocol_is_played_and_the_results_say_under_which_texts(folder, monkeypatch):
    files = protocol_files(folder, monkeypatch, released, BACKEND)
    api = Api(answers=True)
    with api.server:
        check_call("colbench.py", **flags(api, MODELS[:1], protocol="released", protocol_files=files, max_turns=3))
    found = json.loads((folder / "out/released_first_4/results.json").read_text())
    score = found["models"][0]["score"]
    assert score["mean"] == 1.0 and score["low"] == pytest.approx(0.5101, abs=1e-4)  # Wilson
    assert found["protocol"]["name"] == "released" and found["grader"]["paper_grader"] is True
    assert set(found["protocol"]["files"].values()) == {sha256(AGENT), sha256(PROMPT)}
    assert found["tasks"] | {"number": 4, "sha256": sha256(Path("tasks.jsonl").read_text())} == found["tasks"]
    assert found["sampling"]["max_turns"] == 3 and found["sampling"]["max_tokens"] == 1024


def test_an_encoder_that_cannot_be_loaded_is_found_before_a_call_is_paid_for(folder, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    renderer_or_skip().close()
    write_rows(folder / "tasks.jsonl", [Task("A page.", "<html><body><h1>Hello</h1></body></html>")])
    api = Api()
    with api.server:
        done = call("colbench.py", **flags(api, limit=1, task_type="html", image_encoder="no/such-encoder"))
    assert done.code == 2 and "image_encoder no/such-encoder" in done.err and api.paid == []
