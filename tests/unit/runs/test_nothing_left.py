"""A command that is refused, or whose disk is full at the start, leaves nothing behind."""

import errno
import os
from pathlib import Path

import pytest

from sweet_rl.runs import texts
from sweet_rl.runs.cli import run
from sweet_rl.runs.directory import directory_manifest
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import run_step


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def refuse(output) -> dict:
    raise UserError("no")


@pytest.mark.parametrize("name", ["made.jsonl", "new/folders/made.jsonl"])
def test_a_file_that_nothing_was_written_to_is_removed_with_the_folders_made_for_it(name, tmp_path):
    with pytest.raises(UserError, match="no"):
        run_step(open_run(tmp_path / name, {}), refuse)
    assert tree(tmp_path) == []


def test_a_directory_is_removed_unless_a_file_is_in_it(tmp_path):
    def fail(output, file: str | None) -> dict:
        (output.path / "checkpoints" / "deep").mkdir(parents=True)
        if file is not None:
            (output.path / "checkpoints" / file).write_text("reference log-probs")
        raise UserError("no")

    with pytest.raises(UserError, match="no"):
        run_step(directory_manifest(tmp_path / "new/model", {}), lambda output: fail(output, None))
    assert tree(tmp_path) == []
    with pytest.raises(UserError, match="no"):
        run_step(directory_manifest(tmp_path / "model", {}), lambda output: fail(output, "kept.npy"))
    assert "model/checkpoints/kept.npy" in tree(tmp_path) and read_manifest(tmp_path / "model")["status"] == "running"


def test_what_was_there_before_stays(tmp_path):
    def stop(output) -> dict:
        output.write({"id": "a"})
        raise UserError("no")

    (tmp_path / "old").mkdir()
    with pytest.raises(UserError):
        run_step(open_run(tmp_path / "old/made.jsonl", {}), stop)
    for overwrite in (False, True):
        with pytest.raises(UserError):
            run_step(open_run(tmp_path / "old/made.jsonl", {}, overwrite=overwrite), refuse)
        assert (tmp_path / "old/made.jsonl").read_text() == '{"id": "a"}\n'
        assert tree(tmp_path) == ["old", "old/made.jsonl", "old/made.jsonl.manifest.json"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError):
        run_step(directory_manifest(tmp_path / "empty", {}), refuse)
    assert (tmp_path / "empty").is_dir() and not list((tmp_path / "empty").iterdir())


@pytest.mark.parametrize("when", ["write", "rename"])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_disk_that_is_full_at_the_start_is_one_message_and_nothing_is_left(kind, when, tmp_path, monkeypatch, capsys):
    def full(*arguments, **named):
        if when == "write":
            Path.touch(arguments[0])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((texts, "open_anew") if when == "write" else (os, "replace")), full)

    def main() -> None:
        """A script."""
        path = tmp_path / "new" / "made"
        run_step(open_run(path, {}) if kind == "file" else directory_manifest(path, {}), lambda output: {})

    with pytest.raises(SystemExit) as end:
        run(main, [])
    message = capsys.readouterr().err
    assert end.value.code == 2 and message.startswith("error: ") and "No space left on device. Make room" in message
    assert str(tmp_path / "new" / "made") in message
    assert tree(tmp_path) == []


@pytest.mark.parametrize("name", ["x" * 300, "x" * 250, "é" * 120, "x" * 230 + ".jsonl"])
def test_a_name_that_is_too_long_for_the_files_beside_it_is_refused_at_once(name, tmp_path):
    with pytest.raises(UserError, match="too long"):
        open_run(tmp_path / name, {})
    assert tree(tmp_path) == []


def test_an_error_of_the_operating_system_names_the_file_and_a_library_s_own_is_not_hidden(tmp_path, capsys):
    def main(path: str) -> None:
        """A script."""
        if path == "library":
            raise OSError("a text of a library")
        open(path).close()

    with pytest.raises(SystemExit) as end:
        run(main, ["--path", str(tmp_path / ("y" * 300))])
    assert end.value.code == 2 and "File name too long" in capsys.readouterr().err
    with pytest.raises(OSError, match="a text of a library"):
        run(main, ["--path", "library"])
