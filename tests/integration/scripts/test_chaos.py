"""Dialogues on servers that fail in every way, in a run that is killed again and again: the same records in the end."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
import time
from functools import partialmethod
from pathlib import Path

import pytest

from sweet_rl.models import server as served
from sweet_rl.runs.records import Task
from tests.support.chaos_server import MODEL
from tests.support.command_line import ROOT, call, count_rows, kill_when, read_rows, write_rows
from tests.support.launched import free_port

TASKS, SAMPLES, KILLS = 10, 4, 3
# The script with a short pause before a call that failed is made again.
SCRIPT = """
import runpy
from functools import partialmethod
from sweet_rl.models.server import Server
Server.__init__ = partialmethod(Server.__init__, pause=0.2)
runpy.run_path({script!r}, run_name="__main__")
"""


class Server:
    """A chaos server as a process that can be ended without warning, and started again on the same port."""

    def __init__(self, share: float, seconds: float = 0.0) -> None:
        program = str(ROOT / "tests/support/chaos_server.py")
        self.words = [sys.executable, program, free_port(), str(share), str(seconds)]
        self.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.words[2]}"

    def start(self) -> None:
        self.process = subprocess.Popen(self.words, stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(self.words[2])), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def flags(place: Path, name: str, agent: Server, human: Server, **more) -> dict:
    return {
        "agent_model": MODEL, "env_model": MODEL, "agent_hostname": agent.host, "hostname": human.host, "timeout": 1.5,
        "input_path": place / "tasks.jsonl", "output_path": place / f"{name}.jsonl", "best_of_n": SAMPLES,
        "concurrency": 8, "patience": 60, **more,
    }  # fmt: skip


@pytest.mark.slow
def test_the_records_are_those_of_an_undisturbed_run(tmp_path, monkeypatch):
    """40 dialogues, 5 % trouble of every kind, servers that die, and three times SIGKILL."""
    tasks = [Task(f"Write number {n}: def f(x)", f"def f(x): return x * {n}", {"t": "f(1)"}) for n in range(TASKS)]
    write_rows(tmp_path / "tasks.jsonl", tasks)
    steady = Server(0.0)
    done = call("simulate_interactions.py", **flags(tmp_path, "undisturbed", steady, steady))
    steady.stop()
    assert done.code == 0, done.err
    undisturbed = {row["id"]: row for row in read_rows(tmp_path / "undisturbed.jsonl")}
    assert len(undisturbed) == TASKS * SAMPLES

    monkeypatch.setattr(served.Server, "__init__", partialmethod(served.Server.__init__, pause=0.2))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(script=str(ROOT / "scripts" / "simulate_interactions.py")))
    servers, over, draw = [Server(0.05, 0.1), Server(0.05, 0.1)], threading.Event(), random.Random()

    def restart_servers() -> None:
        while not over.wait(draw.uniform(0.5, 2.0)):
            server = draw.choice(servers)
            server.stop()
            over.wait(draw.uniform(0.0, 0.5))
            server.start()

    restarts = threading.Thread(target=restart_servers)
    restarts.start()
    output = tmp_path / "chaos.jsonl"
    try:
        for number in range(KILLS):
            aim = (number + draw.random()) * 0.8 * len(undisturbed) / KILLS
            given = flags(tmp_path, "chaos", *servers)
            kill_when(lambda aim=aim: count_rows(output) > aim, str(script), **given)
        for _ in range(20):
            done = call("simulate_interactions.py", **flags(tmp_path, "chaos", *servers, retry_failed=True))
            rows = read_rows(output)
            if done.code == 0 and not any(row["ending"] == "failed" for row in rows):
                break
    finally:
        over.set()
        restarts.join()
        for server in servers:
            server.stop()
    assert {row["id"]: row for row in rows} == undisturbed and len(rows) == len(undisturbed)
    manifest = json.loads((tmp_path / "chaos.jsonl.manifest.json").read_text())
    assert manifest["status"] == "finished"
