"""Batches of pairs and their losses."""

from __future__ import annotations

import numpy as np

from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import Examples
from sweet_rl.training.settings import PreferenceSettings


def test_a_batch_holds_each_text_once_with_its_own_reference():
    def text(*ids):
        return EncodedText.build(ids, [False] + [True] * (len(ids) - 1), "")

    texts = [text(1, 2), text(1, 3, 4), text(1, 5)]
    reference = [np.asarray([-0.1]), np.asarray([-0.2, -0.3]), np.asarray([-0.4])]
    examples = Examples(texts, np.asarray([[2, 1], [0, 1], [2, 0]]))
    collate = preference_objective(examples, reference, PreferenceSettings()).collate
    batch = collate([0, 2])
    assert batch["pairs"].tolist() == [[2, 1], [2, 0]] and batch["items"] == 2
    assert batch["targets"].tolist() == [2, 3, 4, 5]
    assert batch["reference"].tolist() == [-0.1, -0.2, -0.3, -0.4]
    batch = collate([0])
    assert batch["pairs"].tolist() == [[1, 0]] and batch["targets"].tolist() == [3, 4, 5]
