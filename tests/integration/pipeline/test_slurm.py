"""Steps as jobs of a real Slurm: found again, never twice, with the address of a server."""

import json
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from sweet_rl.pipeline import launch, slurm
from sweet_rl.pipeline.launch import Slurm
from sweet_rl.pipeline.plan import Step
from tests.support.slurm_cluster import slurm_cluster

POLL = 0.2  # seconds


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    with slurm_cluster(tmp_path_factory.mktemp("cluster") / "slurm"):
        yield


@pytest.fixture(autouse=True)
def from_the_repository(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)


def step(tmp_path, script: str) -> Step:
    """A step whose shell script makes out.txt."""
    output = tmp_path / "out.txt"
    words = ("sh", "-c", f"{script}; echo $HEAD_NODE >>{output}", "sh", "--output_path", str(output))
    return Step("make", "other", words, (str(output),), (), str(tmp_path / "times.jsonl"))


def starts(tmp_path) -> int:
    """How often the command was begun."""
    return (tmp_path / "logs" / "out.txt.log").read_text().count("$ sh -c")


def test_a_step_is_a_job_that_knows_its_first_node_and_has_its_cost_noted(tmp_path):
    made = step(tmp_path, "true")
    assert Slurm({"all": {"mem": "50M"}, "other": {"nodes": 1, "shards": 3}}, POLL).run(made) == 0
    host = subprocess.run(["hostname", "-s"], capture_output=True, text=True).stdout.strip()
    assert (tmp_path / "out.txt").read_text().split() == [host] and made.finished()
    (row,) = map(json.loads, (tmp_path / "times.jsonl").read_text().splitlines())
    assert (row["step"], row["status"], row["gpus"]) == ("make", 0, 0)


def test_a_job_that_fails_is_a_failed_step_and_can_be_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "SETTLED", 1.0)
    launcher = Slurm({"all": {"mem": "50M"}}, POLL)
    failing = step(tmp_path, f"test -e {tmp_path}/there || exit 3")
    assert launcher.run(failing) != 0 and not failing.finished()
    (tmp_path / "there").touch()
    assert launcher.run(failing) == 0 and starts(tmp_path) == 2


def test_the_job_of_an_engine_that_was_ended_is_waited_for_and_not_submitted_again(tmp_path):
    made, launcher = step(tmp_path, "sleep 2"), Slurm({"all": {"mem": "50M"}}, POLL)
    ended = threading.Thread(target=launcher.run, args=(made,), daemon=True)
    ended.start()  # stands for an engine of which only the job remains
    deadline = time.monotonic() + 30
    while not slurm.queued(slurm.job_name(made.output), POLL):
        assert time.monotonic() < deadline
        time.sleep(POLL)
    assert launcher.run(made) == 0 and starts(tmp_path) == 1
    assert launcher.run(made) == 0 and starts(tmp_path) == 1


def test_a_server_is_one_job_whose_address_the_others_read(tmp_path):
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "models").write_text("{model}")
    command = f"{sys.executable} -m http.server $PORT --directory {tmp_path} # {{model}}"
    launcher, address = Slurm({"all": {"mem": "50M"}, "server": {"command": command}}, POLL), tmp_path / "human.address"
    assert launcher.serve("llama 70B", address) == 0
    before = address.read_text()
    with urllib.request.urlopen(f"http://{before.strip()}/v1/models") as reply:
        assert reply.read() == b"{model}"
    assert launcher.serve("llama 70B", address) == 0 and address.read_text() == before
    slurm.cancel(slurm.job_name(address))
    slurm.wait_for(slurm.job_name(address), POLL)
    broken = Slurm({"all": {"mem": "50M"}, "server": {"command": "false"}}, POLL)
    assert broken.serve("llama 70B", address) == 1
