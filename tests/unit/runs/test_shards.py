"""Splitting work over machines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.evaluation.budget import behind, cost_of, dialogues_in
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import gather, shard_of
from tests.support.command_line import read_rows


@given(st.integers(0, 50), st.integers(1, 60))
def test_the_shards_one_after_the_other_are_everything_once_in_equal_parts(size, count):
    items = list(range(size))
    shards = [shard_of(items, f"{number}/{count}") for number in range(1, count + 1)]
    assert [item for shard in shards for item in shard] == items
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_no_shard_is_everything():
    assert shard_of([1, 2], None) == [1, 2]


@pytest.mark.parametrize("shard", ["0/4", "5/4", "1", "1/0", "a/b", "-1/4", "1/4/2", ""])
def test_what_is_no_shard_is_an_error_that_says_how_they_are_counted(shard):
    with pytest.raises(UserError, match="i from 1 to n"):
        shard_of([1, 2], shard)


def shard(path, number, count, **changes):
    """A finished output of shard number/count, with one record."""
    with open_run(path, {"seed": 3, "shard": f"{number}/{count}", **changes}) as run:
        run.write({"id": f"r{number}"})
        run.finish({"dialogues": 1})
    return path


def test_gathered_shards_are_in_their_order_whatever_the_order_of_the_files(tmp_path):
    paths = [shard(tmp_path / f"{number}.jsonl", number, 11) for number in (2, 11, 1, 10, 3, 4, 5, 6, 7, 8, 9)]
    assert gather(paths, tmp_path / "all.jsonl") == 11
    assert [row["id"] for row in read_rows(tmp_path / "all.jsonl")] == [f"r{number}" for number in range(1, 12)]
    before = (tmp_path / "all.jsonl").read_bytes()
    assert gather(paths, tmp_path / "all.jsonl") == 11 and (tmp_path / "all.jsonl").read_bytes() == before


def test_dialogues_of_shards_are_counted_once_as_cost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = {"agent_model": "mini", "env_model": "mini"}
    gather([shard(tmp_path / f"{number}.jsonl", number, 2, **both) for number in (1, 2)], tmp_path / "all.jsonl")
    assert sum(map(dialogues_in, behind("all.jsonl"))) == 2
    with open_run(tmp_path / "graded.jsonl", {}, ["all.jsonl"]) as run:
        run.finish({})
    assert cost_of("graded.jsonl")["dialogues"] == 0  # playing the test is no cost of the agent
    with open_run(tmp_path / "begun.jsonl", both):
        pass
    assert dialogues_in("begun.jsonl") == 0  # no summary yet


@pytest.mark.parametrize(
    ("numbers", "changes", "said"),
    [((1, 3), {}, "1/3, 2/3, 3/3"), ((1, 1, 2), {}, "both"), ((1, 2, 3), {"seed": 4}, "seed")],
)
def test_shards_that_are_missing_repeated_or_of_another_run_are_refused(tmp_path, numbers, changes, said):
    paths = [
        shard(tmp_path / f"{place}.jsonl", number, 3, **(changes if number == 3 else {}))
        for place, number in enumerate(numbers)
    ]
    with pytest.raises(UserError, match=said):
        gather(paths, tmp_path / "all.jsonl")
    assert not (tmp_path / "all.jsonl").exists()


def test_an_unfinished_shard_and_a_whole_output_are_refused(tmp_path):
    with open_run(tmp_path / "half.jsonl", {"shard": "1/1"}):
        pass
    with pytest.raises(UserError, match="not finished"):
        gather([tmp_path / "half.jsonl"], tmp_path / "all.jsonl")
    with open_run(tmp_path / "whole.jsonl", {}) as run:
        run.finish()
    with pytest.raises(UserError, match="--shard"):
        gather([tmp_path / "whole.jsonl"], tmp_path / "all.jsonl")


def test_shards_of_other_inputs_are_refused(tmp_path):
    paths = [tmp_path / f"{number}.jsonl" for number in (1, 2)]
    for number, path in enumerate(paths, 1):
        (source := tmp_path / f"tasks{number}").write_text(str(number))
        with open_run(path, {"seed": 3, "shard": f"{number}/2"}, [source]) as run:
            run.write({"id": f"r{number}"})
            run.finish({})
    with pytest.raises(UserError, match="inputs"):
        gather(paths, tmp_path / "all.jsonl")
