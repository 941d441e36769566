"""Splitting work over machines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.errors import UserError
from sweet_rl.runs.shards import shard_of


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
