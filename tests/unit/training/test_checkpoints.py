"""When checkpoints are written, and which one is continued."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training.checkpoints import PARTIAL, STATE, Checkpoints
from sweet_rl.training.engine import STATE as TENSORS
from sweet_rl.training.engine import Engine
from sweet_rl.training.settings import TrainingSettings


class Processes(SimpleNamespace):
    """One process, or the first of several."""

    is_main_process = True

    def wait_for_everyone(self) -> None:
        pass


class Files:
    """An engine whose state is one file."""

    def __init__(self, processes: int = 1):
        self.accelerator = Processes(num_processes=processes)
        self.loaded = None

    def save(self, folder) -> None:
        assert folder.name == PARTIAL
        (folder / "weights").write_text("weights")

    def load(self, folder) -> None:
        self.loaded = folder.name


LOG = SimpleNamespace(state=lambda: ["a line"], restore=lambda state: LOG.restored.append(state), restored=[])


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_newest_whole_checkpoint_is_continued_and_what_is_torn_is_written_over(tmp_path):
    checkpoints = Checkpoints(tmp_path, TrainingSettings(), Files())
    assert checkpoints.newest() is None and checkpoints.resume(LOG) == 0
    (tmp_path / PARTIAL).mkdir()
    (tmp_path / PARTIAL / "half").write_text("")
    (tmp_path / "checkpoint-old").mkdir()
    for step in (9, 10):
        checkpoints.save(step, LOG)
    assert names(tmp_path) == {"checkpoint-10", "checkpoint-old"}
    assert names(tmp_path / "checkpoint-10") == {"weights", STATE}
    (tmp_path / PARTIAL).mkdir()  # of a training that was killed while it wrote
    engine = Files()
    assert Checkpoints(tmp_path, TrainingSettings(), engine).resume(LOG) == 10
    assert engine.loaded == "checkpoint-10" and LOG.restored == [["a line"]]


def test_an_older_checkpoint_stays_until_the_newer_one_is_whole(tmp_path):
    checkpoints = Checkpoints(tmp_path, TrainingSettings(), Files())
    checkpoints.save(7, LOG)
    checkpoints.engine.save = lambda folder: (folder / "no" / "folder").write_text("")
    with pytest.raises(FileNotFoundError):
        checkpoints.save(9, LOG)
    assert names(tmp_path) == {"checkpoint-7", PARTIAL}
    assert Checkpoints(tmp_path, TrainingSettings(), Files()).resume(LOG) == 7


def test_under_zero_another_number_of_processes_is_refused_by_name(tmp_path):
    Checkpoints(tmp_path, TrainingSettings(zero_stage=2), Files(processes=2)).save(4, LOG)
    assert Checkpoints(tmp_path, TrainingSettings(zero_stage=2), Files(processes=2)).newest()
    assert Checkpoints(tmp_path, TrainingSettings(), Files(processes=1)).newest()
    with pytest.raises(UserError, match="checkpoint-4 was written by 2 processes, .*not 4, or give --overwrite"):
        Checkpoints(tmp_path, TrainingSettings(zero_stage=2), Files(processes=4)).newest()


def saved_steps(steps: int, **settings) -> list[int]:
    """The steps after which checkpoints are written."""
    checkpoints = Checkpoints(None, TrainingSettings(**{"save_minutes": None, **settings}), engine=None)
    saved = []
    for step in range(1, steps + 1):
        if checkpoints.due(step):
            saved.append(step)
            checkpoints.restart_clock()
    return saved


def test_checkpoints_are_written_by_steps_and_by_the_clock_of_the_first_process(monkeypatch):
    now = [0.0]

    def seconds():
        now[0] += 15  # per step
        return now[0]

    assert saved_steps(10) == [] and saved_steps(10, save_steps=4) == [4, 8]
    for first, saved in ((False, []), (True, [1, 2, 3])):
        with monkeypatch.context() as patch:
            patch.setattr("sweet_rl.training.checkpoints.broadcast_object_list", lambda values, first=first: [first])
            assert [saved_steps(3, save_minutes=minutes) for minutes in (1e-9, 1e9)] == [saved, saved]
    monkeypatch.setattr("sweet_rl.training.checkpoints.time", SimpleNamespace(monotonic=seconds))
    assert 4 <= len(saved_steps(20, save_minutes=1)) <= 8


class Written:
    """Unpickled, it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_the_code_that_a_checkpoint_names_is_not_run(tmp_path):
    torch.save({"weights": Written(tmp_path / "ran")}, tmp_path / TENSORS)
    with pytest.raises(pickle.UnpicklingError):
        Engine(TrainingSettings()).load(tmp_path)
    assert names(tmp_path) == {TENSORS}
