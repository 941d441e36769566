"""What a name stands for, without a hub."""

import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.hub import SHORT_NAMES, is_on_hub, local_path
from sweet_rl.runs.records import Task, read_records
from sweet_rl.runs.run import open_run


def test_a_path_is_a_path_also_if_it_is_spelt_like_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_on_hub("colbench/backend/train") and not is_on_hub("tasks.jsonl")
    for name in ("tasks.jsonl", "no/such/file", "colbench/backend/train"):
        (tmp_path / "colbench/backend").mkdir(parents=True, exist_ok=True)
        (tmp_path / "colbench/backend/train").touch()
        assert str(local_path(name)) == name and not is_on_hub(name)


@pytest.mark.parametrize("name", ["colbench/backend/dev", "hf://owner/name/file", "hf://datasets/name", "hf://"])
def test_a_name_that_means_nothing_is_answered_with_those_that_do(name):
    with pytest.raises(UserError, match="colbench/backend/test"):
        local_path(name)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *((name, "facebook/collaborative_agent_bench") for name in SHORT_NAMES),
        ("hf://datasets/owner/name@v1/a/b.jsonl", "owner/name a/b.jsonl --repo-type dataset --revision v1"),
    ],
)
def test_without_a_network_the_message_names_the_command_that_downloads(name, asked, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=f"hf download {asked}"):
        read_records(name, Task)


def test_an_output_is_no_name_on_the_hub():
    with pytest.raises(UserError, match="local"):
        open_run("hf://datasets/owner/name/tasks.jsonl", {})
