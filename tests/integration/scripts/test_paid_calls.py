"""Dialogues through an API that costs money: no reply is paid for twice, and a ceiling holds."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path

import pytest

from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal
from tests.support.command_line import call, count_rows, kill_when, write_rows

TASKS = [Task(f"Add {n}.", f"def f(x):\n    return x + {n}\n", {"a": "f(1)"}, f"t{n}") for n in range(12)]


class Api:
    """An API that counts what it answers; the agent asks four times and answers. A key belongs to one side."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.paid: list[str] = []
        self.in_progress = self.most_in_progress = 0
        self.refuse: list[Reply] = []
        self.seconds = seconds
        self.lock = threading.Lock()
        self.server = ApiServer(self.answer)

    def answer(self, body: dict) -> Reply:
        with self.lock:
            if self.refuse:
                return self.refuse.pop(0)
            self.in_progress += 1
            self.most_in_progress = max(self.most_in_progress, self.in_progress)
        time.sleep(self.seconds)
        with self.lock:
            self.in_progress -= 1
            self.paid.append(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest())
        if "<hidden_code>" in body["messages"][-1]["content"]:
            return chat_reply("It is a number.")
        asked = sum(message["role"] == "assistant" for message in body["messages"])
        return chat_reply("I WANT TO ANSWER: def f(x): return x" if asked == 4 else f"What is number {asked}?")


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setenv("AGENT_KEY", "key-of-the-agent")
    monkeypatch.setenv("HUMAN_KEY", "key-of-the-human")
    api = Api()
    with api.server:
        yield api


def flags(api: Api, folder: Path, **more) -> dict:
    return {
        "agent_model": MODEL, "agent_hostname": api.server.url, "agent_tokenizer": "none", "env_model": MODEL,
        "hostname": api.server.url, "agent_api_key_variable": "AGENT_KEY", "api_key_variable": "HUMAN_KEY",
        "input_path": write_rows(folder / "tasks.jsonl", [task.to_dict() for task in TASKS]),
        "output_path": folder / "dialogues.jsonl", "cache": folder / "calls",
    } | more  # fmt: skip


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_ceiling_holds_keeps_every_reply_and_the_same_command_continues(api, tmp_path):
    whole = call("simulate_interactions.py", **flags(api, tmp_path, output_path=tmp_path / "w", cache=tmp_path / "w.c"))
    cost = len(api.paid)
    assert whole.code == 0 and cost == len(set(api.paid)) == 12 * 9
    assert "at most 120 calls" in whole.out and "at most 108 calls" in whole.out  # ten turns
    assert set(api.server.headers) == {"Bearer key-of-the-agent", "Bearer key-of-the-human"}
    api.paid.clear()
    spent = []
    for _ in range(4):
        result = call("simulate_interactions.py", **flags(api, tmp_path, max_calls=40))
        spent.append(len(api.paid) - sum(spent))
        assert result.code == (0 if len(api.paid) == cost else 2), result.err
        assert (result.code == 0) or "--max_calls 40" in result.err
        if result.code == 0:
            break
    assert spent == [40, 40, 28] and len(set(api.paid)) == cost
    assert rows_of(tmp_path / "dialogues.jsonl") == rows_of(tmp_path / "w")


def test_a_kill_after_many_calls_loses_only_those_in_progress(api, tmp_path):
    api.seconds = 0.2  # so that the rest takes longer than to notice
    kill_when(lambda: len(api.paid) >= 60, "simulate_interactions.py", **flags(api, tmp_path))
    time.sleep(1)
    before = len(api.paid)
    api.seconds = 0.0
    assert call("simulate_interactions.py", **flags(api, tmp_path)).code == 0
    assert 60 <= before < 12 * 9
    assert len(api.paid) <= 12 * 9 + 12  # at most one call per dialogue was lost
    assert len(rows_of(tmp_path / "dialogues.jsonl")) == 12


def test_a_ceiling_holds_for_calls_that_are_made_at_the_same_time(api, tmp_path):
    api.seconds = 0.05
    tasks = [Task(f"Add {n}.", "def f(x):\n    return x\n", {"a": "f(1)"}, f"t{n}") for n in range(60)]
    path = write_rows(tmp_path / "many.jsonl", [task.to_dict() for task in tasks])
    settings = flags(api, tmp_path, input_path=path, max_calls=8)
    assert call("simulate_interactions.py", **settings).code == 2
    assert api.most_in_progress <= 8 and len(api.paid) == 8


def test_a_limit_of_the_rate_is_on_the_progress_line_and_in_the_summary(api, tmp_path, monkeypatch):
    monkeypatch.setattr("sweet_rl.runs.progress.FILE_INTERVAL", 0.1)
    monkeypatch.setattr("sweet_rl.runs.progress.TERMINAL_INTERVAL", 0.1)
    monkeypatch.setattr("sweet_rl.dialogues.collect.TERMINAL_INTERVAL", 0.1)
    api.refuse = [refusal(429, "slow down", retry_after="1")] * 3
    result = call("simulate_interactions.py", **flags(api, tmp_path, num_tasks=2))
    assert result.code == 0 and "rate limit (429)" in result.err, result.err
    assert '"rate_limits": ' in result.out and "failed 0" in result.err


def test_empty_and_cut_messages_are_counted(api, tmp_path):
    def answer(body: dict) -> Reply:
        if "<hidden_code>" in body["messages"][-1]["content"]:
            return chat_reply("It is a number.")
        number = int(body["messages"][0]["content"].split("Add ")[1].split(".")[0])
        texts = {0: "", 1: "<think>so", 2: " \n"}
        return chat_reply(texts.get(number, "What?"), reason="length" if number in (1, 3) else "stop")

    api.server.answer = answer
    result = call("simulate_interactions.py", **flags(api, tmp_path, num_tasks=5, max_turns=2))
    counted = dict(line.split(": ", 1) for line in result.out.splitlines() if ": " in line)
    assert (counted["empty_messages"], counted["cut_messages"]) == ("6", "4"), result.out
    assert counted["dialogues_with_empty_or_cut_messages"] == "4"


def test_a_name_that_the_list_lacks_is_tried(api, tmp_path):
    result = call("simulate_interactions.py", **flags(api, tmp_path, num_tasks=1, agent_model="alias"))
    assert result.code == 0 and rows_of(tmp_path / "dialogues.jsonl")[0]["ending"] == "answered", result.err
    api.server.answer = lambda body: refusal(404, f"no model {body['model']}")
    settings = flags(api, tmp_path, agent_model="typo", output_path=tmp_path / "other")
    result = call("simulate_interactions.py", **settings)
    assert result.code == 2 and "no model typo" in result.err and not count_rows(tmp_path / "other")


def test_a_ceiling_without_a_cache_is_refused(api, tmp_path):
    result = call("simulate_interactions.py", **flags(api, tmp_path, cache=None, max_calls=5))
    assert result.code == 2 and "--cache" in result.err and not api.paid
