"""Advantages within a task's dialogues, and the weights of turns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.policy_gradients.group_advantages import group_advantages, turn_weights


def test_a_reward_is_compared_with_those_of_its_own_task():
    found = group_advantages([1, 0, 0.5, 0, 1, 1], ["a", "b", "b", "a", "a", "a"])
    # task a: mean 3/4, standard deviation sqrt(3/16); task b: mean 1/4, standard deviation 1/4
    high, low = 1 / 4 / math.sqrt(3 / 16), -3 / 4 / math.sqrt(3 / 16)
    assert found.tolist() == pytest.approx([high, -1, 1, low, high, high])


def test_without_the_standard_deviation_it_is_the_distance_from_the_mean():
    found = group_advantages([1, 0, 0.5, 0, 1, 1], ["a", "b", "b", "a", "a", "a"], divide_by_std=False)
    assert found.tolist() == pytest.approx([0.25, -0.25, 0.25, -0.75, 0.25, 0.25])


def test_equal_rewards_have_no_advantage_also_where_their_mean_is_rounded():
    assert group_advantages([0.1, 0.1, 0.1, 1.0], ["a", "a", "a", "b"]).tolist() == [0, 0, 0, 0]


def test_turn_weights_by_hand():
    # one dialogue, two turns of 1 and 3 tokens, scores 1 and 3: z is -1 and 1, the mean of tanh over tokens tanh(1) / 2
    up, down = 1 + 0.4 * (math.tanh(1) / 2), 1 + 0.4 * (-1.5 * math.tanh(1))
    assert turn_weights([[1, 3]], [[1, 3]], ["a"], [2.0], 0.4)[0].tolist() == pytest.approx([down, up])
    better_less = turn_weights([[1, 3]], [[1, 3]], ["a"], [-2.0], 0.4)[0].tolist()
    assert better_less == pytest.approx([2 - down, 2 - up])


def test_scores_are_standardised_over_the_turns_of_the_task():
    # task a has the scores 0 and 4 in dialogues of one turn: no turn to prefer. Task b: 0, 0, 3, 3.
    scores, tokens = [[0], [0, 3], [4], [0, 3]], [[2], [1, 1], [2], [1, 1]]
    found = turn_weights(scores, tokens, ["a", "b", "a", "b"], [1, 1, -1, -1], 0.5)
    step = 0.5 * math.tanh(1)
    expected = [[1], [1 - step, 1 + step], [1], [1 + step, 1 - step]]
    assert [own.tolist() for own in found] == [pytest.approx(own) for own in expected]


def test_equal_scores_weigh_all_turns_the_same():
    assert turn_weights([[0.1, 0.1], [0.1]], [[5, 2], [3]], ["a", "a"], [1, -1], 0.5)[0].tolist() == [1, 1]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_weights_stay_in_their_bounds_and_have_mean_one_whatever_the_scores(scale):
    draw = np.random.default_rng(0)
    for strength in (0.1, 0.5):
        turns = draw.integers(1, 8, 40)
        credit = [scale * draw.standard_t(1.1, n) for n in turns]
        tokens = [draw.integers(1, 100, n) for n in turns]
        signs = draw.choice([-1.5, 0.5], 40)
        found = turn_weights(credit, tokens, [str(i // 4) for i in range(40)], signs, strength)
        for own, scores, lengths, sign in zip(found, credit, tokens, signs, strict=True):
            assert ((own > 1 - 2 * strength) & (own < 1 + 2 * strength)).all()
            assert np.average(own, weights=lengths) == pytest.approx(1)
            ranked = own[np.argsort(scores)]
            assert (np.diff(ranked if sign > 0 else -ranked) >= 0).all()
