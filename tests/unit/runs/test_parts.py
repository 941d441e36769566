"""Several processes do the work of one run: order, failures, and what stays on disk."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from sweet_rl.runs.errors import UserError
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


def work_with_an_engine(pids: str, last: bool, output_path: str, shard: str) -> None:
    """Start a process that ends never, as vLLM does; then end or, if not `last`, wait for ever."""
    engine = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(3600,))
    engine.start()
    Path(pids, f"{os.getpid()} {engine.pid}").touch()
    if not last:
        time.sleep(3600)
    with open_run(output_path, {}) as run:
        run.write({"id": shard})
        run.finish()


def rank_for_ever(folder: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored after nohup or a shell's &
    with open_run(Path(folder, "out.jsonl"), {}) as run:
        run_parts(run, partial(work_with_an_engine, folder, False), [{}, {}])


def started(folder: Path) -> list[int]:
    return [int(pid) for path in folder.glob("* *") for pid in path.name.split()]


def wait_for(holds) -> None:
    limit = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_part_may_start_processes_and_ends_them_at_its_end(tmp_path):
    with open_run(tmp_path / "out.jsonl", {}) as run:
        run_parts(run, partial(work_with_an_engine, str(tmp_path), True), [{}, {}])
        run.finish()
    assert len(started(tmp_path)) == 4 and not any(map(running, started(tmp_path)))
    assert [row["id"] for row in read_rows(tmp_path / "out.jsonl")] == ["1/2", "2/2"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_processes_of_parts_end_with_the_one_that_started_them(tmp_path, number):
    whole = multiprocessing.get_context("spawn").Process(target=rank_for_ever, args=(str(tmp_path),))
    whole.start()
    wait_for(lambda: len(started(tmp_path)) == 4)
    os.kill(whole.pid, number)
    whole.join(60)
    wait_for(lambda: not any(map(running, started(tmp_path))))
