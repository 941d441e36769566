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


def test_the_shards_one_after_the_other_are_the_whole_run(place):
    with ApiServer(talk) as server:
        whole = simulate(place, "whole", server, concurrency=1)
        parts = [simulate(place, f"part{n}", server, shard=f"{n}/4", concurrency=1) for n in (1, 2, 3, 4)]
    assert [len(part) for part in parts] == [4, 5, 4, 5]
    assert [key for part in parts for key in part] == list(whole)
    assert {key: row for part in parts for key, row in part.items()} == whole


BROKEN = """
from sweet_rl.dialogues import Domain, ScriptedHuman

class Client:
    async def reply(self, task, dialogue, seed):
        return task.wishes

DOMAIN = Domain("mine", reward=lambda task, answer: 1.0, scripted_humans={"client": ScriptedHuman(Client)})
"""


def test_a_mistake_in_a_domains_file_is_named_by_its_line_and_an_edit_of_it_needs_overwrite(place):
    domain = place / "mine.py"
    domain.write_text(BROKEN)
    with ApiServer(talk) as server:
        given = flags(place, "run", server, task_type=domain) | {"env_model": "client", "hostname": None}
        done = call("simulate_interactions.py", **given)
        assert done.code == 1 and "'wishes'" in done.out and "--retry_failed" in done.err, done.out + done.err
        assert re.search(r'mine.py", line 6, in reply\n +return task.wishes', done.err), done.err
        domain.write_text(BROKEN.replace("task.wishes", 'HumanReply("?")').replace("Domain,", "Domain, HumanReply,"))
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


def test_a_cached_run_makes_no_call_twice_and_gives_the_same_records(place):
    with ApiServer(talk) as server:
        first = simulate(place, "first", server, cache=place / "cache")
        made = len(server.requests)
        second = simulate(place, "second", server, cache=place / "cache")
        assert second == first and len(server.requests) == made
        assert simulate(place, "plain", server) == first
        other = simulate(place, "other", server, cache=place / "cache", seed=1)
        assert other != first and set(other) == set(first)
    assert summary(place, "second")["agent and human"]["cache"] == {"hits": made, "misses": 0}
    assert summary(place, "first")["agent and human"]["servers"][server.url]["calls"] == made == 18 * 3
    assert summary(place, "first")["tokens"] == {
        "agent_completion_tokens": 180, "agent_prompt_tokens": 252,
        "human_completion_tokens": 90, "human_prompt_tokens": 126,
    }  # fmt: skip


def test_servers_that_take_other_parameters_are_told_by_flag_or_learned(place):
    def answer(body):
        if "max_tokens" in body:
            return refusal(400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
        for name in ("temperature", "top_p"):
            if name in body:
                return refusal(400, f"Unsupported value: '{name}' does not support 0 with this model.", name)
        return talk(body)

    with ApiServer(answer) as server:
        learned = simulate(place, "learned", server, concurrency=1)
        assert sum("temperature" in body for _, body in server.requests) < 4
        assert {row["ending"] for row in learned.values()} == {"answered"}
        before = len(server.requests)
        left_out = '{"temperature": null, "top_p": null, "max_tokens": null, "max_completion_tokens": 64}'
        told = simulate(place, "told", server, agent_request=left_out, env_request=left_out)
        fresh = [body for _, body in server.requests[before:]]
        assert len({row.pop("human")["hash"] for row in (*learned.values(), *told.values())}) == 2  # other requests
        assert told == learned and len(fresh) == 18 * 3
        assert all(body["max_completion_tokens"] == 64 and "temperature" not in body for body in fresh)
    settings = json.loads((place / "told.jsonl.manifest.json").read_text())["settings"]
    assert settings["agent"]["request"]["max_completion_tokens"] == 64


def test_keys_come_from_the_environment_and_are_written_nowhere(place, monkeypatch):
    monkeypatch.setenv("AGENT_KEY", "sk-agent-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-human-secret")
    seen = []
    with ApiServer(talk) as server:
        server.headers = seen
        simulate(place, "run", server, agent_api_key_variable="AGENT_KEY", api_key_variable="OPENAI_API_KEY")
    assert set(seen) == {"Bearer sk-agent-secret", "Bearer sk-human-secret"}
    written = b"".join(path.read_bytes() for path in place.iterdir() if path.is_file())
    assert b"secret" not in written


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_a_message_and_loses_nothing(place):
    with ApiServer(talk) as server:
        words, environment = process("simulate_interactions.py", **flags(place, "run", server, concurrency=1))
        limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "-", *words]  # no file above 8 KB
        done = subprocess.run(limited, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 2 and "Make room" in done.stderr and "Traceback" not in done.stderr
        kept = (place / "run.jsonl").read_bytes()
        kept = kept[: kept.rindex(b"\n") + 1]  # a half line is cut when the run goes on
        assert 0 < len(kept) <= 8192
        whole = simulate(place, "run", server)
        assert (place / "run.jsonl").read_bytes().startswith(kept)
        assert whole == simulate(place, "undisturbed", server)
