"""Several processes do the work of one run: order, failures, and what stays on disk."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from sweet_rl.errors import UserError
from sweet_rl.runs.parts import run_parts
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import shard_of
from tests.support.command_line import read_rows


def work(broken: str | None, output_path: str, shard: str) -> None:
    """Writes a shard of ten records with the process's environment; fails at the record `broken` if it has it."""
    with open_run(output_path, {"shard": shard}) as run:
        if run.complete:
            return
        for number in shard_of([str(n) for n in range(10)], shard):
            if number == broken:
                raise UserError(f"record {number} is broken")
            if number not in run.done:
                run.write({"id": number, "seen": os.environ["SEEN"], "process": os.getpid()})
        run.finish()


def test_parts_are_appended_in_order_and_a_failed_one_alone_is_continued(tmp_path, capfd):
    path, environments = tmp_path / "out.jsonl", [{"SEEN": "a"}, {"SEEN": "b"}]
    with open_run(path, {}) as run:
        with pytest.raises(UserError, match="2/2"):
            run_parts(run, partial(work, "7"), environments)
        assert not run.done and "part 2/2: record 7 is broken" in capfd.readouterr().err
    first = (tmp_path / "out.jsonl.part-1-of-2").read_text()
    with open_run(path, {}) as run:
        run_parts(run, partial(work, None), environments)
        run.finish()
    rows = read_rows(path)
    assert [row["id"] for row in rows] == [str(n) for n in range(10)]
    assert [row["seen"] for row in rows] == ["a"] * 5 + ["b"] * 5
    assert path.read_text().startswith(first) and os.getpid() not in {row["process"] for row in rows}
    assert {one.name for one in Path(tmp_path).iterdir()} == {"out.jsonl", "out.jsonl.manifest.json"}


def killed(output_path: str, shard: str) -> None:
    with open_run(output_path, {"shard": shard}) as run:
        run.write({"id": shard})
        if shard == "2/2":
            os.kill(os.getpid(), signal.SIGKILL)
        run.finish()


def test_a_part_that_was_killed_is_not_taken_for_complete(tmp_path):
    with open_run(tmp_path / "out.jsonl", {}) as run:
        with pytest.raises(UserError, match="2/2"):
            run_parts(run, killed, [{}, {}])
        assert not run.done
