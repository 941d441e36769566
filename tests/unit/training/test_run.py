"""What is refused before a model is loaded, the precision of weights, and which figures end a summary."""

from __future__ import annotations

import sys

import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training.run import Training, last_figures, make_engine, mean_loss
from sweet_rl.training.settings import DataSettings, TrainingSettings


@pytest.mark.parametrize("settings, message", [
    ({"keep": "best"}, "--eval_fraction"), ({"report_to": "pigeon"}, "--report_to pigeon"),
    ({"lr_scheduler": "zigzag"}, "zigzag"), ({"train_batch_size": 8, "micro_train_batch_size": 3}, "multiple"),
])  # fmt: skip
def test_what_cannot_work_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Training("model", "dataset", "out", TrainingSettings(**settings), DataSettings())


@pytest.mark.parametrize("module, settings, message", [
    ("peft", {"lora_rank": 4}, "pip install peft"),
    ("bitsandbytes", {"lora_rank": 4, "load_in_4bit": True}, "--load_in_4bit needs bitsandbytes"),
    ("deepspeed", {"zero_stage": 2}, "pip install deepspeed"),
])  # fmt: skip
def test_a_package_that_is_missing_is_named(monkeypatch, module, settings, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=message):
        Training("model", "dataset", "out", TrainingSettings(**settings), DataSettings())


@pytest.mark.parametrize("settings, dtype", [
    ({}, torch.float32), ({"bf16": True}, torch.float32), ({"bf16": True, "lora_rank": 1}, torch.bfloat16),
])  # fmt: skip
def test_weights_are_bfloat16_only_beside_what_keeps_float32(settings, dtype):
    assert make_engine(TrainingSettings(**settings)).dtype == dtype


def test_the_last_figures_are_those_of_the_last_step_and_the_last_evaluation():
    history = [
        {"loss": 3.0, "margin": 0.0, "step": 1}, {"eval_loss": 2.5, "step": 1},
        {"loss": 2.0, "margin": 1.0, "step": 2, "epoch": 1.0, "learning_rate": 0.1},
        {"eval_loss": 1.5, "eval_margin": 2.0, "step": 2},
    ]  # fmt: skip
    assert last_figures(history) == {"loss": 2.0, "margin": 1.0, "eval_loss": 1.5, "eval_margin": 2.0}
    assert last_figures(history[2:3]) == {"loss": 2.0, "margin": 1.0}
    assert last_figures([]) == {}


def test_the_mean_loss_is_over_steps_also_of_a_training_that_was_continued():
    lines = [{"loss": 3.0, "step": 10}, {"eval_loss": 9.0, "step": 10}, {"loss": 1.0, "step": 15}]
    assert mean_loss(lines) == (10 * 3.0 + 5 * 1.0) / 15
