"""Batches of value heads: labels, pairs and items, and the loss that each objective takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.runs.errors import UserError
from sweet_rl.training.examples import Examples
from sweet_rl.training.rejection_fine_tuning import imitation_objective
from sweet_rl.training.settings import DataSettings, TrainingSettings, ValueSettings
from sweet_rl.training.value import train_value, value_objective
from tests.support.command_line import write_rows


def text(*ids: int) -> EncodedText:
    """One token of prompt, then two turns: the first and the last of the others."""
    train = [False, True, *[False] * (len(ids) - 3), True]
    return EncodedText.build(ids, train, "text")


TEXTS = [text(1, 2, 3, 4), text(1, 5, 6, 7), text(9, 2, 3, 4)]
DIALOGUES = Examples(TEXTS, np.arange(3)[:, None], labels=[1.0, 0.0, 1.0])
PAIRS = Examples(TEXTS, np.asarray([[2, 1], [0, 1]]))


def test_dialogues_have_their_labels_and_a_value_per_turn():
    objective = value_objective(DIALOGUES, ValueSettings("classification"), share=False)
    batch = objective.collate([2, 1])
    assert batch["labels"].tolist() == [1, 0] and batch["items"] == 2
    assert batch["text_of_value"].tolist() == [0, 0, 1, 1]
    assert batch["input_ids"].tolist() == [[9, 2, 3, 4], [1, 5, 6, 7]]
    loss, _ = objective.losses(torch.zeros(4), batch)
    assert loss.item() == pytest.approx(2 * math.log(2))


def test_pairs_name_the_texts_of_their_batch_and_scores_are_scaled_by_beta():
    objective = value_objective(PAIRS, ValueSettings("preference", beta=0.5), share=True)
    batch = objective.collate([0])
    assert batch["pairs"].tolist() == [[1, 0]] and batch["items"] == 1
    assert len(batch["text_of_value"]) == 4
    values = torch.where(batch["text_of_value"] == 1, 1.0, -1.0)
    loss, figures = objective.losses(values, batch)
    assert figures["margin"].item() == pytest.approx(0.5 * 4)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)))


def test_imitation_counts_trained_tokens():
    objective = imitation_objective(DIALOGUES, share=False)
    batch = objective.collate([1, 2])
    assert batch["items"] == 4 and batch["targets"].tolist() == [5, 7, 2, 4]
    assert objective.losses(torch.tensor([-1.0, -2.0, -3.0, -4.0]), batch)[0].item() == 10


@pytest.mark.parametrize(("rewards", "found"), [([0.9, 0.5, 0.0], "a reward below 1"), ([1.0, 1.0], "reward 1")])
def test_a_classifier_is_not_trained_on_dialogues_of_one_class(rewards, found, tiny_chat_model, tmp_path):
    task = {"id": "t", "problem_description": "q", "ground_truth": "g"}
    history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows = [{"task": task, "dialogue_history": history, "answer": "a", "reward": reward} for reward in rewards]
    dataset, out = str(write_rows(tmp_path / "graded.jsonl", rows)), str(tmp_path / "out")
    how = ValueSettings("classification"), TrainingSettings(), DataSettings()
    with pytest.raises(UserError, match=f"graded.jsonl: all .* have {found},.*--objective preference"):
        train_value(tiny_chat_model, dataset, out, *how)
