"""What is refused before a model is loaded, and the precision of weights."""

from __future__ import annotations

import sys

import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training.run import Training, make_engine
from sweet_rl.training.settings import DataSettings, TrainingSettings


@pytest.mark.parametrize("settings, message", [
    ({"report_to": "pigeon"}, "--report_to pigeon"),
    ({"train_batch_size": 8, "micro_train_batch_size": 3}, "multiple"),
])  # fmt: skip
def test_what_cannot_work_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Training("model", "dataset", "out", TrainingSettings(**settings), DataSettings())


@pytest.mark.parametrize("module, settings, message", [
    ("peft", {"lora_rank": 4}, "peft"),
    ("bitsandbytes", {"lora_rank": 4, "load_in_4bit": True}, "bitsandbytes"),
    ("deepspeed", {"zero_stage": 2}, "deepspeed"),
])  # fmt: skip
def test_a_package_that_is_missing_is_named(monkeypatch, module, settings, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=message):
        Training("model", "dataset", "out", TrainingSettings(**settings), DataSettings())


@pytest.mark.parametrize("settings, dtype", [
    ({}, torch.float32), ({"bf16": True}, torch.float32), ({"bf16": True, "lora_rank": 1}, torch.bfloat16),
])  # fmt: skip
def test_weights_are_bfloat16_only_beside_what_keeps_float32(settings, dtype):
    assert make_engine(TrainingSettings(**settings)).dtype == dtype
