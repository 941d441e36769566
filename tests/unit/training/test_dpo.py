"""The preference loss over a batch, from token log-probs to the logged figures, by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from sweet_rl.errors import UserError
from sweet_rl.scoring.rows import EncodedText
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import PreferenceExamples
from sweet_rl.training.losses import preference_losses
from sweet_rl.training.settings import PreferenceSettings

TEXT = torch.tensor([0, 0, 1])
TURN = torch.tensor([0, 1, 2])
LOGPS = torch.tensor([-1.0, -2.0, -4.0])
REFERENCE = torch.tensor([-2.0, -2.0, -3.0])


def test_a_pairs_loss_is_the_preference_term_and_the_chosen_texts_nll():
    loss, metrics = preference_losses(
        LOGPS, REFERENCE, TEXT, TURN, 2, torch.tensor([[0, 1]]), PreferenceSettings(0.5, 0.1, "none")
    )
    # log-ratios: chosen 1 + 0, rejected -1; margin 0.5 * 2 = 1; NLL of the chosen (1 + 2) / 2
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1)) + 0.1 * 1.5)
    assert metrics["margin"].item() == pytest.approx(1)
    assert metrics["nll"].item() == pytest.approx(1.5)
    assert metrics["chosen_reward"].item() == pytest.approx(0.5)
    assert metrics["rejected_reward"].item() == pytest.approx(-0.5)
    assert metrics["accuracy"].item() == 1


def test_a_text_of_several_pairs_counts_in_each():
    pairs = torch.tensor([[0, 1], [0, 1], [1, 0]])
    loss, metrics = preference_losses(LOGPS, REFERENCE, TEXT, TURN, 2, pairs, PreferenceSettings(0.5, 0, "none"))
    up, down = math.log(1 + math.exp(-1)), math.log(1 + math.exp(1))
    assert loss.item() == pytest.approx(2 * up + down)
    assert metrics["accuracy"].item() == 2


def test_a_batch_holds_each_text_once_with_its_own_reference():
    def text(*ids):
        return EncodedText.build(ids, [False] + [True] * (len(ids) - 1), "")

    texts = [text(1, 2), text(1, 3, 4), text(1, 5)]
    reference = [np.asarray([-0.1]), np.asarray([-0.2, -0.3]), np.asarray([-0.4])]
    examples = PreferenceExamples(texts, np.asarray([[2, 1], [0, 1], [2, 0]]), [None] * 3, Counter())
    collate = preference_objective(examples, reference, PreferenceSettings()).collate
    batch = collate([0, 2])
    assert batch["pairs"].tolist() == [[2, 1], [2, 0]] and batch["items"] == 2
    assert batch["targets"].tolist() == [2, 3, 4, 5]
    assert batch["reference"].tolist() == [-0.1, -0.2, -0.3, -0.4]
    batch = collate([0])
    assert batch["pairs"].tolist() == [[1, 0]] and batch["targets"].tolist() == [3, 4, 5]


@pytest.mark.parametrize("normalize, mean_log_prob, expected", [
    ("auto", False, "none"), ("auto", True, "trajectory"), ("turn", False, "turn"),
    ("trajectory", True, "trajectory"), ("none", False, "none"),
])  # fmt: skip
def test_the_released_flag_means_one_mean_over_the_dialogue(normalize, mean_log_prob, expected):
    assert PreferenceSettings(normalize=normalize, mean_log_prob=mean_log_prob).normalization == expected


def test_flags_that_contradict_each_other_are_refused():
    with pytest.raises(UserError, match="Give one"):
        PreferenceSettings(normalize="turn", mean_log_prob=True)
