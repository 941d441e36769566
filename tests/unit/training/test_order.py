"""Epoch orders: complete, grouped, different by epoch, the same by seed."""

from __future__ import annotations

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
    groups = prompt_groups([bytes([i // 4]) for i in range(80)], limit=4)
    batches = epoch_order(groups, [1] * 20, 8, 0, 0).reshape(-1, 8)
    assert all(len({i // 4 for i in batch}) == 2 for batch in batches.tolist())


def test_a_batch_holds_similar_lengths():
    costs = list(np.random.default_rng(0).integers(1, 1000, 512))
    batches = epoch_order([np.asarray([i]) for i in range(512)], costs, 8, 0, 0).reshape(-1, 8)
    spread = np.ptp(np.asarray(costs)[batches], axis=1).mean()
    assert spread < 100


def test_epochs_differ_and_a_seed_repeats():
    groups = prompt_groups([bytes([i]) for i in range(64)], limit=4)
    first = epoch_order(groups, [1] * 64, 8, 3, 0)
    assert first.tolist() == epoch_order(groups, [1] * 64, 8, 3, 0).tolist()
    assert first.tolist() != epoch_order(groups, [1] * 64, 8, 3, 1).tolist()


def test_groups_are_limited():
    assert [g.tolist() for g in prompt_groups([b"a", b"b", b"a", b"a"], 2)] == [[0, 2], [3], [1]]
