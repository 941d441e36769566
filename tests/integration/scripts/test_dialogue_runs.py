"""What a user trusts a long run of dialogues with: shards, failures played again, cached calls, full disks, keys."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal
from tests.support.command_line import call, process, read_rows, write_rows

TASKS = [Task(f"Write number {n}: def f(x)", f"def f(x): return x * {n}", {"t": "f(1)"}) for n in range(6)]


def talk(body: dict):
    """The agent asks once, then answers; what is said depends on the seed."""
    messages = body["messages"]
    if "<hidden_code>" in messages[-1]["content"]:
        return chat_reply("It is linear, I think.")
    asked = any(message["role"] == "assistant" for message in messages)
    return chat_reply(f"I WANT TO ANSWER:\ndef f(x): return {body.get('seed')}" if asked else f"{body.get('seed')}?")


@pytest.fixture()
def place(tmp_path) -> Path:
    write_rows(tmp_path / "tasks.jsonl", [task.to_dict() for task in TASKS])
    return tmp_path


def flags(place: Path, name: str, server: ApiServer, **more) -> dict:
    return {
        "agent_model": MODEL, "env_model": MODEL, "agent_hostname": server.url, "hostname": server.url,
        "input_path": place / "tasks.jsonl", "output_path": place / f"{name}.jsonl", "best_of_n": 3, **more,
    }  # fmt: skip


def simulate(place: Path, name: str, server: ApiServer, **more) -> dict[str, dict]:
    done = call("simulate_interactions.py", **flags(place, name, server, **more))
    assert done.code == 0, done.err
    rows = read_rows(place / f"{name}.jsonl")
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


def summary(place: Path, name: str) -> dict:
    return json.loads((place / f"{name}.jsonl.manifest.json").read_text())["summary"]


BROKEN = """
from sweet_rl.dialogues import Domain

class Client:
    async def reply(self, task, dialogue, seed):
        return task.wishes

DOMAIN = Domain("mine", reward=lambda task, answer: 1.0, scripted_humans={"client": Client})
"""


def test_a_mistake_in_a_domains_file_is_named_by_its_line_and_an_edit_of_it_needs_overwrite(place):
    domain = place / "mine.py"
    domain.write_text(BROKEN)
    with ApiServer(talk) as server:
        given = flags(place, "run", server, task_type=domain) | {"env_model": "client", "hostname": None}
        done = call("simulate_interactions.py", **given)
        assert done.code == 1 and "'wishes'" in done.out and "--retry_failed" in done.err, done.out + done.err
        assert re.search(r'mine.py", line 6, in reply\n +return task.wishes', done.err), done.err
        mended = BROKEN.replace("import Domain", "import Domain, HumanReply").replace("task.wishes", 'HumanReply("?")')
        domain.write_text(mended)
        assert call("simulate_interactions.py", **given, retry_failed=True).code == 2
        assert call("simulate_interactions.py", **given, overwrite=True).code == 0


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
        assert summary(place, "run")["failures"] == {"human: context": 6}
        said = call("simulate_interactions.py", **flags(place, "run", server))
        assert "already complete" in said.out and "6 dialogues failed" in said.out and "--retry_failed" in said.out
        broken.remove("number 2")
        calls = len(server.requests)
        second = simulate(place, "run", server, retry_failed=True)
        assert {key for key, row in second.items() if row["ending"] == "failed"} == {
            key for key in failed if "number 4" in first[key]["task"]["problem_description"]
        }
        assert len(server.requests) - calls == 3 * 3 + 3 * 2
        broken.clear()
        third = simulate(place, "run", server, retry_failed=True)
        calls = len(server.requests)
        assert simulate(place, "run", server, retry_failed=True) == third and len(server.requests) == calls
        undisturbed = simulate(place, "undisturbed", server)
    assert third == undisturbed
    assert all(third[key] == row for key, row in first.items() if key not in failed)


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
