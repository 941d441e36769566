"""Records from a hub, and outputs to it, over HTTP with a small server in its place."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from sweet_rl.errors import UserError
from sweet_rl.names import _downloaded
from sweet_rl.records import Task, read_records
from sweet_rl.runs.push import pushed
from sweet_rl.runs.run import directory_manifest, open_run
from tests.support.command_line import ROOT, call, write_rows
from tests.support.hub_server import TOKEN, HubServer, use_hub

SOLUTION = {"ground_truth": "def f(): pass", "test_cases": {"t": "f()"}}
TASKS = "".join(json.dumps({"problem_description": f"Number {n}", **SOLUTION}) + "\n" for n in range(3)).encode()
TRAIN = "datasets/facebook/collaborative_agent_bench/backend_tasks/train.jsonl"
RANKED = {
    "id": "r", "input": [{"text": "task", "train": False}], "older_output": "x", "eos_text": "<eos>",
    "additional_outputs": ["a", "b"], "judge_result": [0, 1],
}  # fmt: skip


@pytest.fixture
def hub(tmp_path, monkeypatch):
    _downloaded.cache_clear()
    with HubServer({TRAIN: TASKS, "datasets/owner/name/dir/file.jsonl": TASKS}) as server:
        use_hub(monkeypatch, server, tmp_path / "cache")
        yield server


def pairs(folder, **flags):
    source = write_rows(folder / "ranked.jsonl", [RANKED])
    flags = {"input_path": source, "output_path": folder / "pairs.jsonl", **flags}
    return call("generate_random_pairs_from_ranks.py", **flags)


def test_records_on_the_hub_are_read_by_their_names_and_from_the_cache_afterwards(hub, tmp_path, monkeypatch):
    for name in ("colbench/backend/train", "hf://datasets/owner/name/dir/file.jsonl"):
        assert [task.problem_description for task in read_records(name, Task)] == ["Number 0", "Number 1", "Number 2"]
    assert sum(method == "GET" and "resolve" in path for method, path in hub.requests) == 2
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    _downloaded.cache_clear()
    assert len(read_records("colbench/backend/train", Task)) == 3


def test_a_manifest_has_the_content_of_a_file_on_the_hub_and_a_local_copy_continues_the_run(hub, tmp_path):
    (tmp_path / "copy.jsonl").write_bytes(TASKS)
    with open_run(tmp_path / "out.jsonl", {}, ["colbench/backend/train"]) as run:
        assert run.manifest.content["inputs"] == {"colbench/backend/train": hashlib.sha256(TASKS).hexdigest()}
    with open_run(tmp_path / "out.jsonl", {}, [tmp_path / "copy.jsonl"]) as run:
        assert not run.complete


def test_a_file_that_the_hub_does_not_have_is_one_message(hub):
    with pytest.raises(UserError, match="backend/test is not in the cache .*404.*hf download facebook"):
        read_records("colbench/backend/test", Task)


def test_a_file_on_the_hub_is_not_graded_in_place(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("evaluate_code.py", input_path="colbench/backend/train", in_place=True)
    assert done.code == 2 and "colbench/backend/train is on the hub, where the result cannot be written" in done.err


def test_a_process_finds_the_hub_by_its_environment(hub, tmp_path):
    program = "import sys; from sweet_rl.records import Task, read_records; print(len(read_records(sys.argv[1], Task)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "0"}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "other")}
    words = [sys.executable, "-c", program, "colbench/backend/train"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_a_finished_dataset_is_uploaded_with_its_card_also_by_a_later_command(hub, tmp_path):
    assert pairs(tmp_path).code == 0 and not hub.private
    done = pairs(tmp_path, push_to_hub="owner/pairs")
    assert done.code == 0 and "already complete" in done.out and f"{hub.url}/datasets/owner/pairs" in done.out
    assert hub.private == ["owner/pairs"]
    uploaded = {name: content for name, content in hub.files.items() if "owner/pairs" in name}
    assert uploaded.pop("datasets/owner/pairs/pairs.jsonl") == (tmp_path / "pairs.jsonl").read_bytes()
    (text,) = uploaded.values()
    assert set(uploaded) == {"datasets/owner/pairs/README.md"}
    source = hashlib.sha256((tmp_path / "ranked.jsonl").read_bytes()).hexdigest()
    assert b"| num_pairs | `4` |" in text and f"| ranked.jsonl | `sha256 {source}` |".encode() in text


def test_without_access_nothing_is_done_and_a_broken_upload_is_repeated_by_the_same_command(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "of another hub")
    denied = pairs(tmp_path, push_to_hub="owner/pairs")
    assert denied.code == 2 and "nothing can be uploaded to owner/pairs" in denied.err and "hf auth login" in denied.err
    assert (tmp_path / "pairs.jsonl").read_bytes() == b""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(hub, "broken", True)
    broken = pairs(tmp_path, push_to_hub="owner/pairs")
    assert broken.code == 2 and "is finished, but was not uploaded to owner/pairs" in broken.err
    before = (tmp_path / "pairs.jsonl").read_bytes()
    assert before
    monkeypatch.setattr(hub, "broken", False)
    assert pairs(tmp_path, push_to_hub="owner/pairs").code == 0
    assert hub.files["datasets/owner/pairs/pairs.jsonl"] == before == (tmp_path / "pairs.jsonl").read_bytes()
    assert pairs(tmp_path, push_to_hub="no name").code == 2


def test_a_trained_model_is_uploaded_without_its_manifest_and_an_unfinished_one_not_at_all(hub, tmp_path):
    def train(finish: bool) -> None:
        with pushed(directory_manifest(tmp_path / "critic", {"pretrain": "owner/base"}), "me/critic") as run:
            (run.path / "config.json").write_text("{}")
            (run.path / "adapter").mkdir(exist_ok=True)
            (run.path / "adapter/weights.safetensors").write_bytes(bytes(range(256)))
            if finish:
                run.finish({"steps": 2})

    train(finish=False)
    assert not any("critic" in name for name in hub.files)
    train(finish=True)
    names = {name.removeprefix("me/critic/") for name in hub.files if name.startswith("me/critic/")}
    assert names == {"config.json", "adapter/weights.safetensors", "README.md"}
    assert hub.files["me/critic/adapter/weights.safetensors"] == bytes(range(256))
    assert b'base_model: "owner/base"' in hub.files["me/critic/README.md"]
