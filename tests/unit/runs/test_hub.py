"""What a name stands for, without a hub."""

import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.hub import FILES, REPOSITORY, is_on_hub, local_path
from sweet_rl.runs.records import Task, read_records


def test_a_path_is_a_path_also_if_it_is_spelt_like_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_on_hub("colbench/backend/train") and not is_on_hub("tasks.jsonl")
    for name in ("tasks.jsonl", "no/such/file", "colbench/backend/train"):
        (tmp_path / "colbench/backend").mkdir(parents=True, exist_ok=True)
        (tmp_path / "colbench/backend/train").touch()
        assert str(local_path(name)) == name and not is_on_hub(name)


@pytest.mark.parametrize("name", FILES)
def test_without_a_network_the_message_names_the_command_that_downloads(name, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=f"hf download {REPOSITORY} {FILES[name]}"):
        read_records(name, Task)
