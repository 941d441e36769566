"""A process that dies at each of its writes in turn, and the same command again."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from sweet_rl.runs import manifest
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.run import open_model, open_run

OLD, NEW = {"k": 1}, {"k": 2}
STEPS = 60  # more than any of these runs needs


@pytest.fixture(autouse=True)
def without_versions(monkeypatch):
    """Versions of packages are not looked up, because that takes most of the time of a run as short as these."""
    monkeypatch.setattr(manifest, "_versions", dict)


def dies_at(step, work):
    """Runs `work` in a child that dies within its `step`-th change of the disk; whether it died."""
    child = os.fork()
    if child:
        return os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 9
    left = [step]

    def dying(change, half):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                half(*arguments)
                os._exit(9)
            return change(*arguments, **options)

        return call

    write, write_text = os.write, Path.write_text
    os.write = dying(write, lambda file, data: write(file, data[: len(data) // 2]))
    Path.write_text = dying(write_text, lambda path, text: write_text(path, text[: len(text) // 2]))
    for name in ("ftruncate", "replace", "fsync", "unlink"):
        setattr(os, name, dying(getattr(os, name), lambda *_: None))
    Path.unlink = dying(Path.unlink, lambda *_: None)
    shutil.rmtree = dying(shutil.rmtree, lambda *_: None)
    try:
        work()
        os._exit(0)
    except BaseException:
        os._exit(1)


def every_step(tmp_path):
    """Folders, each for a run that dies one step later than the one before."""
    for step in range(STEPS):
        folder = tmp_path / str(step)
        folder.mkdir()
        yield step, folder
    raise AssertionError("it never came to its end")


def make(path, settings, ids="abc", overwrite=False, drop=None):
    with open_run(path, settings, overwrite=overwrite, drop=drop) as run:
        for key in ids:
            if key not in run.done:
                run.write({"id": key, "made": settings["k"], "good": True})
        if not run.finished:
            run.finish({"k": settings["k"]})
        return list(run.records())


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_a_new_run_ends_with_every_record_once(tmp_path):
    for step, folder in every_step(tmp_path):
        path = folder / "out.jsonl"
        died = dies_at(step, lambda path=path: make(path, OLD))
        assert ids(make(path, OLD)) == ["a", "b", "c"]
        if not died:
            break
    assert step > 6


def test_an_overwritten_output_is_the_old_one_or_refused_or_the_new_one(tmp_path):
    for step, folder in every_step(tmp_path):
        path = folder / "out.jsonl"
        make(path, OLD)
        died = dies_at(step, lambda path=path: make(path, NEW, overwrite=True))
        for settings in (OLD, NEW):
            try:
                with open_run(path, settings) as run:
                    rows = list(run.records())
                    assert not run.finished or ids(rows) == ["a", "b", "c"]
                    assert {row["made"] for row in rows} <= {settings["k"]}
            except UserError:
                continue
        assert {row["made"] for row in make(path, NEW, overwrite=True)} == {2}
        if not died:
            break
    assert step > 6


def test_records_that_are_made_again_are_never_missing_from_a_finished_run(tmp_path):
    def drop(row):
        return not row["good"]

    for step, folder in every_step(tmp_path):
        path = folder / "out.jsonl"
        with open_run(path, OLD) as run:
            for key in "abcd":
                run.write({"id": key, "made": 1, "good": key in "ac"})
            run.finish({})
        died = dies_at(step, lambda path=path: make(path, OLD, "abcd", drop=drop))
        with open_run(path, OLD) as run:
            assert not run.finished or len(run.done) == 4
        rows = make(path, OLD, "abcd", drop=drop)
        assert ids(rows) == ["a", "b", "c", "d"] and all(row["good"] for row in rows)
        if not died:
            break
    assert step >= 7


def test_a_directory_is_the_old_model_or_is_emptied_to_its_end(tmp_path):
    def train(path, settings, overwrite=False):
        with open_model(path, settings, overwrite=overwrite) as run:
            if not run.finished:
                (path / "checkpoint").mkdir(exist_ok=True)
                (path / "weights").write_text(f"weights of {settings['k']}")
                run.finish({})

    for step, folder in every_step(tmp_path):
        path = folder / "model"
        train(path, OLD)
        died = dies_at(step, lambda path=path: train(path, NEW, overwrite=True))
        for settings in (OLD, NEW):
            try:
                with open_model(path, settings) as run:
                    assert not run.finished or (path / "weights").read_text() == f"weights of {settings['k']}"
            except UserError:
                continue
        train(path, NEW, overwrite=True)
        assert (path / "weights").read_text() == "weights of 2" and (path / "checkpoint").is_dir()
        if not died:
            break
    assert step > 4


def test_an_output_is_free_again_when_its_process_has_died(tmp_path):
    path = tmp_path / "out.jsonl"
    ready, go = os.pipe()
    child = os.fork()
    if not child:
        with open_run(path, OLD):
            os.write(go, b".")
            signal.pause()
    os.read(ready, 1)
    with pytest.raises(UserError, match="another process"):
        open_run(path, OLD)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert ids(make(path, OLD)) == ["a", "b", "c"]
