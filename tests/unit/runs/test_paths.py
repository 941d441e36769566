"""Conflicts of paths are found before any work, and an output that was changed is not taken for a finished one."""

import json
import os

import pytest

from sweet_rl.runs.directory import directory_manifest
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import cache_folder, check_paths
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import gather
from sweet_rl.runs.texts import write_texts


@pytest.fixture()
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in.jsonl", "model/config.json", "precious.manifest.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}", encoding="utf-8")
    os.symlink("in.jsonl", "link.jsonl")
    os.symlink("new.jsonl", "dangling.jsonl")
    os.symlink(".", "here")
    os.link("in.jsonl", "hard.jsonl")
    return tmp_path


@pytest.mark.parametrize(
    ("outputs", "inputs", "folders"),
    [
        (["o.jsonl", "o.jsonl.manifest.json"], [], []),
        (["o.jsonl.manifest.json", "o.jsonl"], [], []),
        (["o.jsonl", "o.jsonl.manifest.json.partial"], [], []),
        (["o.jsonl", "here/o.jsonl.part-1-of-2"], [], []),
        (["o.jsonl", "./x/../o.jsonl"], [], []),
        (["o.jsonl", "O.JSONL"], [], []),
        (["o.jsonl", "O.jsonl.Manifest.json"], [], []),
        (["here/new.jsonl", "dangling.jsonl"], [], []),
        (["dangling.jsonl", "new.jsonl.manifest.json"], [], []),
        (["dangling.jsonl", "dangling.jsonl.manifest.json"], [], []),
        (["o", "o/made.jsonl"], [], []),
        (["a.jsonl", "b.jsonl", None, "a.jsonl"], [], []),
        (["link.jsonl"], ["in.jsonl"], []),
        (["hard.jsonl"], [None, "in.jsonl"], []),
        (["here/in.jsonl"], ["link.jsonl"], []),
        (["precious"], ["precious.manifest.json"], []),
        (["model"], ["model/config.json"], []),
        (["model"], ["model"], []),
        (["model/out.jsonl"], ["model"], []),
        (["here/model/out.jsonl"], ["here/model"], []),
        (["calls"], [], ["calls"]),
        (["calls/out.jsonl"], [], ["here/calls"]),
        (["out"], [], ["out/calls"]),
    ],
)
def test_paths_that_meet_are_refused_and_nothing_is_made(place, outputs, inputs, folders):
    before = sorted(os.listdir())
    with pytest.raises(UserError, match="choose another output path"):
        check_paths(outputs, inputs, folders)
    assert sorted(os.listdir()) == before


def test_paths_that_only_look_alike_pass(place):
    check_paths(
        ["o.jsonl", "o.jsonl.pairs.jsonl", "o.json", "o.jsonl2", "sub/o.jsonl", None],
        ["in.jsonl", "model", None, "missing.jsonl", "o.jsonl.candidates.jsonl"],
        ["calls", None],
    )
    check_paths(["model/adapter/out.jsonl", "in.jsonl.graded.jsonl"], ["model", "in.jsonl"], ["in"])


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/null", "/dev/fd/1", "/proc/self/fd/1", "pipe", "here/pipe"])
def test_devices_and_pipes_are_refused_at_once_by_every_kind_of_output(place, name):
    os.mkfifo("pipe")
    for opened in (
        lambda: open_run(name, {}),
        lambda: write_texts({name: "x"}, overwrite=True),
        lambda: directory_manifest(name, {}),
        lambda: check_paths(["o.jsonl", name]),
    ):
        with pytest.raises(UserError, match="is a device or a pipe; the output must be a file on a disk"):
            opened()


def finished(path="o.jsonl", count=3, **settings):
    with open_run(path, settings) as run:
        run.write_missing({"id": str(number), "text": "words"} for number in range(count))
        run.finish()


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-10],
        lambda content: content[: len(content) // 3],
        lambda content: b"",
        lambda content: content.replace(b"words", b"other"),
        lambda content: b"".join(reversed(content.splitlines(keepends=True))),
        lambda content: content + b'{"id": "9"}\n',
        lambda content: content + b"\n",
    ],
)
def test_a_finished_output_that_was_changed_is_not_complete(place, change):
    finished()
    path = place / "o.jsonl"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError):
        open_run("o.jsonl", {})
    finished_again = open_run("o.jsonl", {}, overwrite=True)
    finished_again.close()


def test_a_finished_output_that_is_as_it_was_is_complete(place):
    finished()
    with open_run("o.jsonl", {}) as run:
        assert run.complete
    with open_run("o.jsonl", {}, drop=lambda row: row["id"] == "1") as run:  # made again, and finished again
        assert not run.complete and run.done == {"0", "2"}
        run.write({"id": "1"})
        run.finish()
    with open_run("o.jsonl", {}) as run:
        assert run.complete and len(run.done) == 3


def test_a_shard_that_was_cut_is_not_gathered(place):
    for shard in ("1/2", "2/2"):
        finished(f"{shard[0]}.jsonl", shard=shard)
    cut = (place / "2.jsonl").read_bytes().splitlines(keepends=True)
    (place / "2.jsonl").write_bytes(b"".join(cut[:-1]))
    with pytest.raises(UserError, match="2.jsonl is not as its run left it"):
        gather(["1.jsonl", "2.jsonl"], "all.jsonl")
    assert not (place / "all.jsonl").exists()


@pytest.mark.parametrize("moment", ["write", "finish"])
@pytest.mark.parametrize("harm", ["cut", "append", "replace", "remove"])
def test_an_output_that_another_program_changes_while_it_is_written_is_not_finished(place, harm, moment):
    path = place / "o.jsonl"
    with open_run(path, {}) as run:
        run.write_missing({"id": str(number)} for number in range(4))
        content = path.read_bytes()
        if harm == "cut":
            os.truncate(path, len(content) - 5)
        elif harm == "append":
            path.write_bytes(content + b"x")
        elif harm == "replace":
            (place / "other").write_bytes(content)
            os.replace(place / "other", path)
        else:
            path.unlink()
        with pytest.raises(UserError, match="by another program"):
            run.write({"id": "9"}) if moment == "write" else run.finish()
    assert json.loads((place / "o.jsonl.manifest.json").read_text(encoding="utf-8"))["status"] == "running"
    if harm in ("cut", "replace"):
        with open_run(path, {}) as run:
            run.write_missing({"id": str(number)} for number in range(4))
            run.finish()
        assert path.read_bytes() == content


def test_a_finished_model_folder_of_which_a_file_was_cut_is_not_complete(place):
    with directory_manifest("made", {}) as run:
        (place / "made" / "model.safetensors").write_bytes(b"weights" * 100)
        (place / "made" / "checkpoints").mkdir()
        run.finish()
    with directory_manifest("made", {}) as run:
        assert run.complete
    (place / "made" / "model.safetensors").write_bytes(b"weights" * 99)
    with pytest.raises(UserError, match="not as its run left it"):
        directory_manifest("made", {})


def test_caches_are_below_xdg_cache_home_or_the_cache_of_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, expected in {
        "/caches": "/caches/sweet_rl/pages", "": f"{tmp_path}/.cache/sweet_rl/pages",
        "relative": f"{tmp_path}/.cache/sweet_rl/pages",
    }.items():  # fmt: skip
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert str(cache_folder("pages")) == expected
