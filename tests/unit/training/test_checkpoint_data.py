"""A checkpoint of somebody else can lie, and runs no code."""

import io
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as distributed_checkpoint

from sweet_rl.training.checkpoint_data import DataPlanner, check_metadata


class _Code:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def _saved(folder: Path, state: dict) -> Path:
    distributed_checkpoint.save(state, checkpoint_id=folder)
    return folder


def test_a_checkpoint_of_tensors_and_plain_values_is_read(tmp_path):
    state = {"weight": torch.ones(2, 3, dtype=torch.bfloat16), "step": 7, "names": ["a"], "half": torch.ones(1).half()}
    folder = _saved(tmp_path / "checkpoint-1", state)
    check_metadata(folder)
    found = {"weight": torch.zeros(2, 3, dtype=torch.bfloat16), "step": 0, "names": [], "half": torch.zeros(1).half()}
    distributed_checkpoint.load(found, checkpoint_id=folder, planner=DataPlanner())
    assert found["step"] == 7 and found["names"] == ["a"] and torch.equal(found["weight"], state["weight"])


@pytest.mark.parametrize("name", [".metadata", "__0.metadata"])
def test_code_in_the_metadata_is_refused(name, tmp_path):
    folder, ran = _saved(tmp_path / "checkpoint-1", {"weight": torch.ones(2)}), tmp_path / "ran"
    (folder / name).write_bytes(pickle.dumps(_Code(ran)))
    with pytest.raises(pickle.UnpicklingError, match="pathlib.*may run code"):
        check_metadata(folder)
    assert not ran.exists()


@pytest.mark.parametrize(
    "place", ["torch.distributed.checkpoint.metadata\nos\n", "torch.distributed.checkpoint.metadata\ndataclass\n"]
)
def test_names_that_the_module_of_the_metadata_only_imports_are_refused(place, tmp_path):
    (tmp_path / ".metadata").write_bytes(f"c{place}.".encode())
    with pytest.raises(pickle.UnpicklingError, match="may run code"):
        check_metadata(tmp_path)


def test_code_in_the_place_of_a_tensor_is_refused(tmp_path):
    ran = tmp_path / "ran"
    folder = _saved(tmp_path / "checkpoint-1", {"weight": _Code(ran)})
    check_metadata(folder)
    assert not ran.exists()
    with pytest.raises(BaseException, match="Weights only load failed"):
        distributed_checkpoint.load({"weight": torch.zeros(2)}, checkpoint_id=folder, planner=DataPlanner())
    assert not ran.exists()
    stored = io.BytesIO()
    torch.save(_Code(ran), stored)
    torch.load(io.BytesIO(stored.getvalue()), weights_only=False)
    assert ran.exists(), "the attack itself does not work"
