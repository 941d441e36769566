"""When checkpoints are written, which one is continued, and what a full disk says."""

from __future__ import annotations

import errno
import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training.checkpoints import (
    COMPLETE,
    Checkpoints,
    check_files,
    full_disk_named,
    last_checkpoint,
    mark_complete,
    processes_of,
)
from sweet_rl.training.settings import TrainingSettings


def write_checkpoint(folder, step: int, complete: bool = True, best: int | None = None):
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    (path / "state.json").write_text(json.dumps({"best": best and {"step": best}}))
    if complete:
        (path / COMPLETE).write_text(json.dumps({"processes": 2}))
    return path


def test_the_newest_complete_checkpoint_is_continued_and_the_others_are_removed(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step, complete in ((9, True), (10, True), (100, False)):
        write_checkpoint(tmp_path, step, complete)
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-9", "checkpoint-10"}


def test_what_is_no_checkpoint_stays_and_of_a_link_only_the_link_is_removed(tmp_path):
    folder, elsewhere = tmp_path / "checkpoints", tmp_path / "elsewhere"
    folder.mkdir(), elsewhere.mkdir()
    (folder / "checkpoint-old").mkdir()
    (folder / "checkpoint-7").write_text("notes")
    (elsewhere / "precious").write_text("")
    (folder / "checkpoint-8").symlink_to(elsewhere)
    newest = write_checkpoint(folder, 5)
    assert last_checkpoint(folder) == newest
    assert {path.name for path in folder.iterdir()} == {"checkpoint-old", "checkpoint-7", "checkpoint-5"}
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("content", ["[]", "{}", "[" * 100_000, '{"processes": "x"}'])
def test_a_damaged_number_of_processes_names_the_checkpoint(content, tmp_path):
    path = write_checkpoint(tmp_path, 3)
    (path / COMPLETE).write_text(content)
    with pytest.raises(UserError, match="checkpoint-3 is damaged"):
        processes_of(path)


def test_an_older_checkpoint_stays_until_the_newer_one_is_complete_and_the_best_one_after(tmp_path):
    for step in (3, 7, 9):
        path = write_checkpoint(tmp_path, step, complete=step < 9)
    mark_complete(tmp_path, 9, best=3, processes=4)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-3", "checkpoint-9"}
    assert processes_of(path) == 4
    assert not (path / f"{COMPLETE}.partial").exists()


@pytest.mark.parametrize("name", ["state.json", "parts/weights"])
def test_a_file_of_another_content_and_the_same_size_is_named(name, tmp_path):
    path = write_checkpoint(tmp_path, 3, complete=False)
    (path / "parts").mkdir()
    (path / "parts" / "weights").write_bytes(b"abc")
    mark_complete(tmp_path, 3, best=None, processes=1)
    check_files(path)
    (path / name).write_bytes((path / name).read_bytes()[:-1] + b"\0")
    with pytest.raises(UserError, match=f"{path / name} is damaged: .*Remove the checkpoint"):
        check_files(path)


@pytest.mark.parametrize("damage", ["content", "file", "folder"])
def test_a_damaged_best_checkpoint_is_named_before_the_training_goes_on(damage, tmp_path):
    for step in (3, 4):
        path = write_checkpoint(tmp_path, step, complete=False, best=3)
        mark_complete(tmp_path, step, best=3, processes=1)
    check_files(path)
    weights = tmp_path / "checkpoint-3" / "state.json"
    if damage == "folder":
        shutil.rmtree(weights.parent)
    elif damage == "file":
        weights.unlink()
    else:
        weights.write_bytes(b"\0" * weights.stat().st_size)
    with pytest.raises(UserError, match="checkpoint-3.*Remove the checkpoint and any newer one beside it"):
        check_files(last_checkpoint(tmp_path))


def saved_steps(steps: int, steps_in_epoch: int, **settings) -> tuple[list[int], list[int]]:
    """The steps after which checkpoints are written, and after which the model is evaluated."""
    checkpoints = Checkpoints(None, TrainingSettings(**{"save_minutes": None, **settings}), engine=None)
    saved, evaluated = [], []
    for step in range(1, steps + 1):
        evaluate_now, save_now = checkpoints.due(step, ends_epoch=step % steps_in_epoch == 0)
        if save_now:
            saved.append(step)
            checkpoints.restart_clock()
        if evaluate_now:
            evaluated.append(step)
    return saved, evaluated


def test_checkpoints_are_written_at_the_ends_of_epochs_by_steps_and_by_time(monkeypatch):
    now = [0.0]

    def seconds():
        now[0] += 15  # per step
        return now[0]

    assert saved_steps(10, 5) == ([5, 10], [5, 10])
    assert saved_steps(10, 5, save_steps=4) == ([4, 5, 8, 10], [4, 5, 8, 10])
    assert saved_steps(10, 5, save_steps=4, save_epochs=False) == ([4, 8], [4, 5, 8, 10])
    assert saved_steps(10, 5, save_epochs=False, keep="best") == ([5, 10], [5, 10])
    monkeypatch.setattr("sweet_rl.training.checkpoints.time", SimpleNamespace(monotonic=seconds))
    saved, evaluated = saved_steps(20, 10, save_minutes=1)
    assert evaluated == [10, 20], "a checkpoint by time is not evaluated: the next run would evaluate at another step"
    assert 10 in saved and 20 in saved and 4 <= len(saved) <= 8


def test_all_processes_follow_the_clock_of_the_first(monkeypatch):
    for first, saved in ((False, []), (True, [1, 2, 3])):
        monkeypatch.setattr("sweet_rl.training.checkpoints.broadcast_object_list", lambda values, first=first: [first])
        for minutes in (1e-9, 1e9):
            assert saved_steps(3, 10, save_minutes=minutes) == (saved, [])


def test_the_best_checkpoint_is_that_of_the_lowest_evaluation():
    kept = Checkpoints(None, TrainingSettings(keep="best"), engine=None)
    for step, loss in ((2, 0.5), (4, 0.3), (6, 0.4), (8, 0.3)):
        kept.evaluated(step, loss)
    assert kept.best == {"step": 4, "loss": 0.3}
    last = Checkpoints(None, TrainingSettings(), engine=None)
    last.evaluated(2, 0.5)
    assert last.best is None


def test_a_file_of_a_checkpoint_that_is_missing_or_cut_is_named(tmp_path):
    (tmp_path / COMPLETE).write_text('{"files": {"state.json": 3}}')
    with pytest.raises(UserError, match="state.json is missing"):
        check_files(tmp_path)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(UserError, match="state.json has 2 bytes instead of 3"):
        check_files(tmp_path)
    (tmp_path / "state.json").write_text("{ }")
    check_files(tmp_path)


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
