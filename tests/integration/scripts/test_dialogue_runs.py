"""What a user trusts a long run of dialogues with: a kill, servers that fail in every way, a full disk, failures."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal
from tests.support.command_line import call, check_call, count_rows, kill_when, process, read_rows, write_rows

TASKS = [Task(f"Write number {n}: def f(x)", f"def f(x): return x * {n}", {"t": "f(1)"}) for n in range(6)]


def talk(body: dict) -> Reply:
    """The agent asks once, then answers; what is said depends on the seed."""
    messages = body["messages"]
    if "<hidden_code>" in messages[-1]["content"]:
        return chat_reply("It is linear, I think.")
    asked = any(message["role"] == "assistant" for message in messages)
    return chat_reply(f"I WANT TO ANSWER:\ndef f(x): return {body.get('seed')}" if asked else f"{body.get('seed')}?")


@pytest.fixture
def place(tmp_path) -> Path:
    write_rows(tmp_path / "tasks.jsonl", [task.to_dict() for task in TASKS])
    return tmp_path


def flags(place: Path, name: str, server: ApiServer, **more) -> dict:
    return {
        "agent_model": MODEL, "env_model": MODEL, "agent_hostname": server.url, "hostname": server.url,
        "input_path": place / "tasks.jsonl", "output_path": place / f"{name}.jsonl", "best_of_n": 3, **more,
    }  # fmt: skip


def simulate(place: Path, name: str, server: ApiServer, **more) -> dict[str, dict]:
    check_call("simulate_interactions.py", **flags(place, name, server, **more))
    rows = read_rows(place / f"{name}.jsonl")
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


FAULTS = [
    refusal(500, "internal error"), Reply(b"<html>bad gateway</html>", 502),
    refusal(503, "starting", retry_after="0.05"), refusal(429, "slow down", retry_after_ms="50"),
    Reply({"error": {"message": "Upstream overloaded", "code": 502}}), Reply({"choices": []}), Reply([1]),
    Reply(b"<html>hello</html>"), Reply(b'{"choices": ['), Reply(drop=True), Reply({}, wait=2.5),
]  # fmt: skip


@pytest.mark.slow
def test_killed_twice_on_servers_that_fail_in_every_way_a_run_has_the_records_of_an_undisturbed_one(place, monkeypatch):
    draw = random.Random(0)

    def unsteady(body: dict) -> Reply:
        reply = draw.choice(FAULTS) if draw.random() < 0.15 else talk(body)
        return Reply(reply.body, reply.status, reply.headers, max(reply.wait, 0.05), reply.drop)

    with ApiServer(talk) as steady:
        undisturbed = simulate(place, "undisturbed", steady)
    with ApiServer(unsteady) as agent, ApiServer(unsteady) as human:
        given = flags(place, "run", agent, timeout=1.5, concurrency=3) | {"hostname": human.url}
        for rows in (4, 9):
            kill_when(lambda rows=rows: count_rows(place / "run.jsonl") >= rows, "simulate_interactions.py", **given)
        for _ in range(20):
            done = call("simulate_interactions.py", **given, retry_failed=True)
            found = {row["id"]: row for row in read_rows(place / "run.jsonl")}
            if done.code == 0 and not any(row["ending"] == "failed" for row in found.values()):
                break
    assert found == undisturbed and count_rows(place / "run.jsonl") == len(undisturbed) == 18


def test_failed_dialogues_are_played_again_alone_and_the_others_stay_as_they_are(place):
    broken = {"number 2", "number 4"}

    def answer(body):
        if any(name in body["messages"][-1]["content"] and "<hidden_code>" in str(body) for name in broken):
            return refusal(400, "maximum context length exceeded")
        return talk(body)

    with ApiServer(answer) as server:
        first = simulate(place, "run", server)
        failed = {key for key, row in first.items() if row["ending"] == "failed"}
        assert len(failed) == 6 and {first[key]["failure"]["side"] for key in failed} == {"human"}
        summary = json.loads((place / "run.jsonl.manifest.json").read_text())["summary"]
        assert summary["failures"] == {"human: context": 6}
        assert "--retry_failed" in check_call("simulate_interactions.py", **flags(place, "run", server))
        broken.clear()
        calls = len(server.requests)
        second = simulate(place, "run", server, retry_failed=True)
        assert len(server.requests) - calls == 3 * 6
        assert simulate(place, "run", server, retry_failed=True) == second and len(server.requests) == calls + 18
        assert second == simulate(place, "undisturbed", server)
    assert all(second[key] == row for key, row in first.items() if key not in failed)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_a_message_and_loses_nothing(place):
    with ApiServer(talk) as server:
        words, environment = process("simulate_interactions.py", **flags(place, "run", server, concurrency=1))
        limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "-", *words]  # no file above 8 KB
        done = subprocess.run(limited, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 2 and "File too large" in done.stderr and "Traceback" not in done.stderr
        kept = (place / "run.jsonl").read_bytes()
        kept = kept[: kept.rindex(b"\n") + 1]  # a half line is cut when the run goes on
        assert 0 < len(kept) <= 8192
        whole = simulate(place, "run", server)
        assert (place / "run.jsonl").read_bytes().startswith(kept)
        assert whole == simulate(place, "undisturbed", server)
