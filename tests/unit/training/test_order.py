"""Epoch orders: complete, grouped, different by epoch, the same by seed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.training.order import epoch_order, prompt_groups


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 3))
def test_every_index_comes_exactly_once(sizes, batch_size, epoch):
    edges = np.cumsum([0, *sizes])
    groups = [np.arange(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    order = epoch_order(groups, sizes, batch_size, 7, epoch)
    assert sorted(order.tolist()) == list(range(edges[-1]))


def test_groups_that_divide_the_batch_are_never_torn():
    groups = [np.arange(start, start + 4) for start in range(0, 80, 4)]
    batches = epoch_order(groups, [1] * 20, 8, 0, 0).reshape(-1, 8)
    assert all(len({i // 4 for i in batch}) == 2 for batch in batches.tolist())


def test_a_batch_holds_similar_lengths():
    costs = list(np.random.default_rng(0).integers(1, 1000, 512))
    batches = epoch_order([np.asarray([i]) for i in range(512)], costs, 8, 0, 0).reshape(-1, 8)
    spread = np.ptp(np.asarray(costs)[batches], axis=1).mean()
    assert spread < 100


def test_epochs_differ_and_a_seed_repeats():
    groups = [np.asarray([i]) for i in range(64)]
    first = epoch_order(groups, [1] * 64, 8, 3, 0)
    assert first.tolist() == epoch_order(groups, [1] * 64, 8, 3, 0).tolist()
    assert first.tolist() != epoch_order(groups, [1] * 64, 8, 3, 1).tolist()
    assert first.tolist() != epoch_order(groups, [1] * 64, 8, 4, 0).tolist()


def test_the_examples_of_a_group_and_the_batches_are_shuffled_too():
    (group,) = [np.arange(32)]
    orders = {tuple(epoch_order([group], [1], 32, seed, 0).tolist()) for seed in range(5)}
    assert len(orders) == 5
    costs = list(range(64))  # sorted by cost, the batches would ascend
    batches = epoch_order([np.asarray([i]) for i in range(64)], costs, 8, 0, 0).reshape(-1, 8)
    assert batches.min(1).tolist() != sorted(batches.min(1).tolist())
    assert all(np.ptp(batch) == 7 for batch in batches)


def test_lengths_are_sorted_within_buckets_of_32_batches_only():
    costs = list(range(3 * 64))
    order = epoch_order([np.asarray([i]) for i in range(3 * 64)], costs, 2, 0, 0)
    assert max(np.ptp(order.reshape(-1, 2), axis=1)) > 1  # one bucket over all would pair neighbours only


def test_what_does_not_fill_a_batch_comes_last():
    order = epoch_order([np.asarray([i]) for i in range(11)], list(range(11)), 4, 0, 0)
    assert order[8:].tolist() == [8, 9, 10]


def test_groups_are_limited_and_cost_as_much_as_their_longest_example():
    examples = SimpleNamespace(prompts=[b"a", b"b", b"c", b"a", b"a"], lengths=[1, 2, 3, 4, 5])
    groups, costs = prompt_groups(examples, np.asarray([0, 1, 3, 4]), limit=2)
    assert [group.tolist() for group in groups] == [[0, 3], [4], [1]] and costs == [4, 5, 2]
