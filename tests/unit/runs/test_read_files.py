"""The hash of an input is that of the bytes that were read: replaced or changed meanwhile, it is refused."""

import hashlib
import os

import pytest

from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.read_files import hash_as_read, lines_of
from sweet_rl.runs.records import Task, read_records
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import gather
from tests.support.command_line import write_rows

ROWS = [{"problem_description": f"task {n}", "ground_truth": "x"} for n in range(3)]


def replaced(path):
    """Another file of the same size and times at the path."""
    status = os.stat(path)
    other = path.with_name("other")
    other.write_bytes(path.read_bytes().replace(b"task", b"chat"))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, path)


def changed(path):
    """The same file with other bytes, of the same size and times."""
    status = os.stat(path)
    path.write_bytes(path.read_bytes().replace(b"task", b"chat"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [replaced, changed])
@pytest.mark.parametrize("limit", [None, 1])
def test_a_file_that_is_replaced_between_reading_and_hashing_is_no_input(change, limit, tmp_path):
    path = write_rows(tmp_path / "tasks.jsonl", ROWS)
    read_records(path, Task, limit)
    change(path)
    with pytest.raises(UserError, match="tasks.jsonl was changed or replaced while it was read"):
        open_run(tmp_path / "out.jsonl", {}, [path])
    assert not (tmp_path / "out.jsonl").exists()
    read_records(path, Task)
    with open_run(tmp_path / "out.jsonl", {}, [path]) as run:
        assert list(run.manifest.content["inputs"].values()) == [hashlib.sha256(path.read_bytes()).hexdigest()]


def test_the_noted_hash_is_that_of_the_lines_and_lasts_while_the_file_does(tmp_path):
    path = write_rows(tmp_path / "tasks.jsonl", ROWS)
    lines = lines_of(path)
    whole = next(lines)
    path.write_bytes(path.read_bytes() + b"\n")  # while it is read
    whole += b"".join(lines)
    with pytest.raises(UserError, match="while it was read"):
        hash_as_read(path)
    assert hash_as_read(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_a_later_step_has_written_anew_is_an_input_again(tmp_path):
    for content in ("a", "b"):
        with open_run(tmp_path / "made.jsonl", {"content": content}, overwrite=True) as run:
            run.write({"id": content, **ROWS[0]})
            run.finish()
        with open_run(tmp_path / f"{content}.jsonl", {}, [tmp_path / "made.jsonl"]):
            read_records(tmp_path / "made.jsonl", Task)


def test_a_shard_that_is_replaced_after_it_was_hashed_is_refused(tmp_path, monkeypatch):
    paths = [tmp_path / f"{number}.jsonl" for number in (1, 2)]
    for number, path in enumerate(paths, 1):
        with open_run(path, {"shard": f"{number}/2"}) as run:
            run.write({"id": str(number), "text": "task"})
            run.finish()

    def late(*given):
        opened = open_run(*given)
        changed(paths[1])
        return opened

    monkeypatch.setattr("sweet_rl.runs.shards.open_run", late)
    with pytest.raises(UserError, match="a shard was replaced while it was read"):
        gather(paths, tmp_path / "all.jsonl")
    assert read_manifest(tmp_path / "all.jsonl")["status"] == "running"


@pytest.mark.parametrize("line", [b"\0" * 40, b'{"a": "' + b"\0" * 30, b'{"a": 1}' + b"\0\0"])
def test_a_line_with_nul_bytes_is_named_as_what_a_power_cut_leaves(line, tmp_path):
    path = write_rows(tmp_path / "tasks.jsonl", ROWS)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(RecordError, match="tasks.jsonl, line 4: .*NUL bytes, as after a power cut"):
        read_records(path, Task)
