"""When checkpoints are written, which one is continued, and what a full disk says."""

from __future__ import annotations

import errno
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training.checkpoints import (
    COMPLETE,
    CheckpointSchedule,
    full_disk_named,
    last_checkpoint,
    mark_complete,
    processes_of,
)


def write_checkpoint(folder, step: int, complete: bool = True):
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    (path / "trainer_state.json").write_text("{}")
    if complete:
        (path / COMPLETE).write_text(json.dumps({"processes": 2}))
    return path


def test_the_newest_complete_checkpoint_is_continued_and_the_others_are_removed(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step, complete in ((9, True), (10, True), (100, False)):
        write_checkpoint(tmp_path, step, complete)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-9", "checkpoint-10"}


def test_an_older_checkpoint_stays_until_the_newer_one_is_complete_and_the_best_one_after(tmp_path):
    for step in (3, 7, 9):
        path = write_checkpoint(tmp_path, step, complete=step < 9)
    mark_complete(tmp_path, 9, str(tmp_path / "checkpoint-3"), processes=4)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-3", "checkpoint-9"}
    assert processes_of(str(path)) == 4
    assert not (path / f"{COMPLETE}.partial").exists()


def saved_steps(schedule: CheckpointSchedule, steps: int, steps_in_epoch: int) -> tuple[list[int], list[int]]:
    """The steps at which a schedule asks for checkpoints and for evaluations."""
    saved, evaluated = [], []
    args = SimpleNamespace(eval_strategy="steps")
    for step in range(1, steps + 1):
        control = SimpleNamespace(should_save=False, should_evaluate=False)
        schedule.on_step_end(args, SimpleNamespace(epoch=step / steps_in_epoch, global_step=step), control)
        if control.should_save:
            saved.append(step)
            schedule.on_save(args, None, None)
        if control.should_evaluate:
            evaluated.append(step)
    return saved, evaluated


def test_checkpoints_are_written_at_the_ends_of_epochs_by_steps_and_by_time(monkeypatch):
    now = [0.0]

    def seconds():
        now[0] += 15  # per step
        return now[0]

    monkeypatch.setattr("sweet_rl.training.checkpoints.time", SimpleNamespace(monotonic=lambda: now[0]))
    assert saved_steps(CheckpointSchedule(None, None), 10, 5) == ([5, 10], [5, 10])
    assert saved_steps(CheckpointSchedule(4, None), 10, 5) == ([4, 5, 8, 10], [4, 5, 8, 10])
    assert saved_steps(CheckpointSchedule(4, None, epochs=False), 10, 5) == ([4, 8], [4, 5, 8, 10])
    timed = CheckpointSchedule(None, minutes=1)
    monkeypatch.setattr("sweet_rl.training.checkpoints.time", SimpleNamespace(monotonic=seconds))
    saved, evaluated = saved_steps(timed, 20, 10)
    assert evaluated == [10, 20], "a checkpoint by time is not evaluated: the next run would evaluate at another step"
    assert 10 in saved and 20 in saved and 4 <= len(saved) <= 8


def test_all_processes_follow_the_clock_of_the_first():
    late, early = CheckpointSchedule(None, 1e-9), CheckpointSchedule(None, 1e9)
    late.agreed, early.agreed = (lambda value: False), (lambda value: True)
    assert saved_steps(late, 3, 10) == ([], []) and saved_steps(early, 3, 10) == ([1, 2, 3], [])


def torch_save(path):
    torch.save({"weights": torch.zeros(100_000)}, path)


def numpy_save(path):
    with open(path, "wb") as file:
        np.savez(file, weights=np.zeros(100_000))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("write", [torch_save, numpy_save])
def test_a_full_disk_is_named(write, tmp_path):
    (tmp_path / "file").symlink_to("/dev/full")
    with pytest.raises(UserError, match=f"{tmp_path}: the disk is full .*same command again"):
        with full_disk_named(tmp_path):
            write(tmp_path / "file")


def test_safetensors_words_are_known_and_other_errors_stay_what_they_are(tmp_path):
    words = "Error while serializing: I/O error: No space left on device (os error 28)"  # of safetensors 0.8
    with pytest.raises(UserError, match="the disk is full"), full_disk_named(tmp_path):
        raise RuntimeError(words)
    with pytest.raises(PermissionError), full_disk_named(tmp_path):
        raise PermissionError(errno.EACCES, "no")
