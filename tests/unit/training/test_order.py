"""Epoch orders: complete, in equal steps, grouped, without a class of examples that always meets the same step."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.training.batches import epoch_steps


def alone(count: int) -> list[np.ndarray]:
    """Groups of one example each."""
    return [np.asarray([i]) for i in range(count)]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 3), st.integers(0, 9))
def test_every_example_comes_once_in_as_few_steps_as_possible_of_equal_sizes(sizes, batch_size, epoch, seed):
    edges = np.cumsum([0, *sizes])
    groups = [np.arange(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    lengths = np.random.default_rng(seed).integers(1, 500, edges[-1])
    steps = epoch_steps(groups, lengths, batch_size, seed, epoch)
    assert sorted(np.concatenate(steps).tolist()) == list(range(edges[-1]))
    assert len(steps) == -(-edges[-1] // batch_size)
    assert max(map(len, steps)) <= batch_size and np.ptp([len(step) for step in steps]) <= 1
    if epoch == 0:
        assert lengths[steps[0]].max() == lengths.max()


@settings(deadline=None, max_examples=50)
@given(st.integers(3, 400), st.integers(2, 33), st.integers(0, 3))
def test_seeds_give_other_orders(count, batch_size, epoch):
    orders = [epoch_steps(alone(count), range(count), batch_size, seed, epoch) for seed in range(40)]
    assert len({tuple(np.concatenate(steps).tolist()) for steps in orders}) > 1
    if len(orders[0]) > 1:  # and other companions: the order inside a step changes no training
        assert len({frozenset(steps[0].tolist()) for steps in orders}) > 1


def test_no_length_belongs_to_the_last_step():
    random = np.random.default_rng(0)
    for count, batch_size in ((39, 32), (99, 32), (201, 8), (2001, 8)):
        lengths = random.integers(40, 300, count)
        means = [
            lengths[epoch_steps(alone(count), lengths, batch_size, seed, epoch)[-1]].mean()
            for seed in range(20)
            for epoch in range(1, 21)
        ]
        error = np.std(means) / len(means) ** 0.5
        assert abs(np.mean(means) - lengths.mean()) < 4 * error, (count, batch_size)


def test_every_pair_of_examples_of_a_small_data_set_meets_and_parts():
    together = np.zeros((39, 39))
    for epoch in range(1, 101):
        for step in epoch_steps(alone(39), range(39), 32, 0, epoch):
            together[np.ix_(step, step)] += 1
    pairs = together[np.triu_indices(39, 1)]
    assert 20 < pairs.min() and pairs.max() < 80  # of 100 epochs; 49 are expected, with a deviation of 5


def test_groups_that_divide_the_batch_are_hardly_ever_torn():
    groups = [np.arange(start, start + 4) for start in range(0, 80, 4)]
    for epoch in range(5):
        steps = epoch_steps(groups, [1] * 80, 8, 0, epoch)
        assert all(len({i // 4 for i in step}) == 2 for step in steps)
    groups.append(np.arange(80, 84))  # 84 examples: seven steps of 8 and four of 7
    torn = sum(len({i // 4 for i in step}) > 2 for step in epoch_steps(groups, [1] * 84, 8, 0, 0))
    assert torn <= 4


def test_a_step_of_many_holds_similar_lengths():
    lengths = np.random.default_rng(0).integers(1, 1000, 512)
    steps = epoch_steps(alone(512), lengths, 8, 0, 1)
    assert np.mean([np.ptp(lengths[step]) for step in steps]) < 150
    firsts = [lengths[step].min() for step in steps]
    assert firsts != sorted(firsts), "the steps are shuffled too"


def test_a_seed_and_an_epoch_repeat_their_order():
    first, again, other = (epoch_steps(alone(64), [1] * 64, 8, 3, epoch) for epoch in (1, 1, 2))
    assert [step.tolist() for step in first] == [step.tolist() for step in again] != [step.tolist() for step in other]
