"""Several processes do the work of one run: order, failures, and what stays on disk."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from sweet_rl.errors import UserError
from sweet_rl.runs.parts import run_parts
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import shard_of
from tests.support.command_line import read_rows


def work(broken: str | None, killed: str | None, output_path: str, shard: str) -> None:
    """Write a shard of nine records; fail at the record `broken` and die after the record `killed`, if it has them."""
    with open_run(output_path, {"shard": shard}) as run:
        if run.complete:
            return
        for number in shard_of([str(n) for n in range(9)], shard):
            if number == broken:
                raise UserError(f"record {number} is broken")
            if number not in run.done:
                run.write({"id": number, "seen": os.environ["SEEN"], "process": os.getpid()})
            if number == killed:
                os.kill(os.getpid(), signal.SIGKILL)
        run.finish()


def test_parts_are_appended_in_order_and_those_that_failed_or_were_killed_are_continued(tmp_path, capfd):
    path, environments = tmp_path / "out.jsonl", [{"SEEN": "a"}, {"SEEN": "b"}, {"SEEN": "c"}]
    with open_run(path, {}) as run:
        with pytest.raises(UserError, match="2/3, 3/3"):
            run_parts(run, partial(work, "4", "7"), environments)
        assert not run.done and "part 2/3: record 4 is broken" in capfd.readouterr().err
    first = (tmp_path / "out.jsonl.part-1-of-3").read_text()
    with open_run(path, {}) as run:
        run_parts(run, partial(work, None, None), environments)
        run.finish()
    rows = read_rows(path)
    assert [row["id"] for row in rows] == [str(n) for n in range(9)]
    assert "".join(row["seen"] for row in rows) == "aaabbbccc"
    assert path.read_text().startswith(first) and os.getpid() not in {row["process"] for row in rows}
    assert {one.name for one in tmp_path.iterdir()} == {"out.jsonl", "out.jsonl.manifest.json"}
