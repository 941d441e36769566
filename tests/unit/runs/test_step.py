"""The one way in which a step runs: complete, continued, sharded, with items that fail."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import ItemError, UserError
from sweet_rl.runs.records import read_rows
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings, as_they_finish, shard_of, write_results

ITEMS = list("abcdef")


def doubled(path, step=None, fails=None):
    """Run a step that doubles letters; `fails` is {letter: error}. Return its summary and the letters it worked on."""
    step = step or StepSettings()
    items, asked = shard_of(ITEMS[: step.limit], step.shard), []

    async def double(item):
        asked.append(item)
        if item in (fails or {}):
            raise fails[item]
        return [{"id": item, "text": 2 * item}]

    with open_run(path, to_settings(step), [], step.overwrite) as run:
        if run.finished:
            return run.show(), asked
        missing = [item for item in items if item not in run.done]
        asyncio.run(write_results(run, missing, double, 2, total=len(items), unit="letter"))
        return run.finish({"letters": len(run.done)}), asked


def ids(path):
    return [row["id"] for _, row in read_rows(path)]


def test_an_item_that_failed_leaves_the_others_and_the_same_command_does_it(tmp_path):
    path = tmp_path / "out.jsonl"
    fails = {"b": ItemError("timeout", "too late", retryable=True), "e": ItemError("context", "too long")}
    with pytest.raises(UserError, match="2 of .*1 timeout, 1 context.* too late"):
        doubled(path, fails=fails)
    assert sorted(ids(path)) == ["a", "c", "d", "f"]
    assert json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["status"] == "running"
    summary, asked = doubled(path)
    assert summary == {"letters": 6} and asked == ["b", "e"]


def test_an_error_of_every_item_ends_the_step_at_once(tmp_path):
    path = tmp_path / "out.jsonl"
    refused = ItemError("auth", "HTTP 401", fatal="the server refuses the key or the model")
    with pytest.raises(UserError, match="HTTP 401"):
        doubled(path, fails={"b": refused})
    assert not {"d", "e", "f"} & set(ids(path))
    assert doubled(path)[0] == {"letters": 6}


def test_the_outputs_of_all_shards_one_after_the_other_are_the_whole(tmp_path):
    shards = [tmp_path / f"{number}.jsonl" for number in (1, 2, 3)]
    for number, path in enumerate(shards, start=1):
        doubled(path, StepSettings(shard=f"{number}/3"))
    (tmp_path / "all.jsonl").write_bytes(b"".join(path.read_bytes() for path in shards))
    assert ids(tmp_path / "all.jsonl") == ITEMS


@given(st.integers(0, 50), st.integers(1, 60))
def test_shards_are_everything_once_in_equal_parts(size, count):
    items = list(range(size))
    shards = [shard_of(items, f"{number}/{count}") for number in range(1, count + 1)]
    assert [item for shard in shards for item in shard] == items
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    assert shard_of(items, None) == items


@pytest.mark.parametrize("shard", ["0/4", "5/4", "1", "1/0", "a/b", "-1/4", "1/4/2", ""])
def test_what_is_no_shard_is_an_error_that_says_how_they_are_counted(shard):
    with pytest.raises(UserError, match="i from 1 to n"):
        shard_of([1, 2], shard)


def test_no_more_jobs_run_than_allowed_and_none_waits_for_the_slowest():
    running, most, finished = 0, 0, []
    others_done = asyncio.Event()

    async def work(job):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await (others_done.wait() if job == 0 else asyncio.sleep(0))
        running -= 1
        return job

    async def collect():
        async for job in as_they_finish(range(20), work, 4):
            finished.append(job)
            if len(finished) == 19:
                others_done.set()

    asyncio.run(collect())
    assert most == 4 and sorted(finished) == list(range(20)) and finished[-1] == 0


def test_an_exception_of_a_job_is_raised_and_cancels_the_others():
    cancelled = []

    async def work(job):
        if job == 1:
            raise RuntimeError("broken")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(job)
            raise

    async def collect():
        async for _ in as_they_finish(range(9), work, 3):
            pass

    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(collect())
    assert sorted(cancelled) == [0, 2]
