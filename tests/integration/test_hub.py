"""Records from a hub, over HTTP with a small server in its place."""

import hashlib
import json

import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.hub import _downloaded
from sweet_rl.runs.records import Task, read_records
from sweet_rl.runs.run import open_run
from tests.support.command_line import call
from tests.support.hub_server import HubServer, use_hub

SOLUTION = {"ground_truth": "def f(): pass", "test_cases": {"t": "f()"}}
TASKS = "".join(json.dumps({"problem_description": f"Number {n}", **SOLUTION}) + "\n" for n in range(3)).encode()
TRAIN = "datasets/facebook/collaborative_agent_bench/backend_tasks/train.jsonl"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    _downloaded.cache_clear()
    with HubServer({TRAIN: TASKS}) as server:
        use_hub(monkeypatch, server, tmp_path / "cache")
        yield server
    _downloaded.cache_clear()


def test_records_on_the_hub_are_read_by_their_names_and_from_the_cache_afterwards(hub, tmp_path, monkeypatch):
    read = read_records("colbench/backend/train", Task)
    assert [task.problem_description for task in read] == ["Number 0", "Number 1", "Number 2"]
    assert sum(method == "GET" and "resolve" in path for method, path in hub.requests) == 1
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    _downloaded.cache_clear()
    assert len(read_records("colbench/backend/train", Task)) == 3


def test_a_manifest_has_the_content_of_a_file_on_the_hub_and_a_local_copy_continues_the_run(hub, tmp_path):
    (tmp_path / "copy.jsonl").write_bytes(TASKS)
    with open_run(tmp_path / "out.jsonl", {}, ["colbench/backend/train"]) as run:
        assert run.manifest["inputs"] == {"colbench/backend/train": hashlib.sha256(TASKS).hexdigest()}
    with open_run(tmp_path / "out.jsonl", {}, [tmp_path / "copy.jsonl"]) as run:
        assert not run.finished


def test_a_file_that_the_hub_does_not_have_is_one_message(hub):
    with pytest.raises(UserError, match="backend/test.*404.*hf download"):
        read_records("colbench/backend/test", Task)


def test_a_file_on_the_hub_is_not_graded_in_place(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("evaluate_code.py", input_path="colbench/backend/train", in_place=True)
    assert done.code == 2 and "on the hub" in done.err
