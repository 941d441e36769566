"""Dialogues on servers that fail in every way, in a run that is killed again and again: the same records in the end.

SWEET_RL_CHAOS=N multiplies the dialogues, for longer runs by hand.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sweet_rl.records import Task
from tests.support.chaos_server import MODEL
from tests.support.command_line import ROOT, process, read_rows, write_rows

TIMES = int(os.environ.get("SWEET_RL_CHAOS", "1"))
KILLS = 10
pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A chaos server as a process that can be ended without warning, and started again on the same port."""

    def __init__(self, share: float, seconds: float = 0.0) -> None:
        self.port, self.share, self.seconds = free_port(), share, seconds
        self.process: subprocess.Popen | None = None
        self.start()

    def start(self) -> None:
        words = [sys.executable, str(ROOT / "tests/support/chaos_server.py"), self.port, self.share, self.seconds]
        self.process = subprocess.Popen([str(word) for word in words], stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def flags(place: Path, name: str, servers: list[Server], **more) -> dict:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return {
        "agent_model": MODEL, "env_model": MODEL, "agent_hostname": hosts, "hostname": hosts, "timeout": 1.5,
        "input_path": place / "tasks.jsonl", "output_path": place / f"{name}.jsonl", "best_of_n": 5,
        "concurrency": 48, "patience": 60, **more,
    }  # fmt: skip


def start(place: Path, name: str, servers: list[Server], **more) -> subprocess.Popen:
    words, environment = process("simulate_interactions.py", **flags(place, name, servers, **more))
    log = open(place / f"{name}.log", "ab")
    return subprocess.Popen(words, env=environment, stdout=log, stderr=log)


def finish(place: Path, name: str, servers: list[Server], **more) -> None:
    assert start(place, name, servers, **more).wait() == 0, (place / f"{name}.log").read_text()[-3000:]


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("chaos")
    numbers = range(100 * TIMES)
    tasks = [Task(f"Write number {n}: def f(x)", f"def f(x): return x * {n}", {"t": "f(1)"}) for n in numbers]
    write_rows(place / "tasks.jsonl", [task.to_dict() for task in tasks])
    return place


@pytest.fixture(scope="module")
def undisturbed(place) -> dict[str, dict]:
    server = Server(0.0)
    try:
        finish(place, "undisturbed", [server])
    finally:
        server.stop()
    return {row["id"]: row for row in read_rows(place / "undisturbed.jsonl")}


def test_the_records_are_those_of_an_undisturbed_run(place, undisturbed):
    """500 dialogues, 5 % trouble of every kind, servers that die, and ten times SIGKILL."""
    total = 500 * TIMES
    assert len(undisturbed) == total
    servers = [Server(0.05, 0.005), Server(0.05, 0.005)]
    over = threading.Event()
    draw = random.Random()

    def restart_servers() -> None:
        while not over.wait(draw.uniform(0.5, 2.0)):
            server = draw.choice(servers)
            server.stop()
            over.wait(draw.uniform(0.0, 0.5))
            server.start()

    restarts = threading.Thread(target=restart_servers)
    restarts.start()
    output = place / "chaos.jsonl"
    try:
        for number in range(KILLS):
            run = start(place, "chaos", servers)
            aim = (number + draw.random()) * 0.8 * total / KILLS
            while run.poll() is None and lines(output) < aim:
                time.sleep(0.01)
            time.sleep(draw.uniform(0.0, 0.2))
            assert run.poll() is None or lines(output) >= aim, (place / "chaos.log").read_text()[-3000:]
            run.send_signal(signal.SIGKILL)
            run.wait()
        for _ in range(20):
            run = start(place, "chaos", servers, retry_failed=True)
            run.wait()
            rows = read_rows(output)
            if run.returncode == 0 and not any(row["ending"] == "failed" for row in rows):
                break
    finally:
        over.set()
        restarts.join()
        for server in servers:
            server.stop()
    assert {row["id"]: row for row in rows} == undisturbed and len(rows) == total
    manifest = json.loads((place / "chaos.jsonl.manifest.json").read_text())
    assert manifest["status"] == "finished" and manifest["records"] == total
