"""Models loaded for training and for scoring."""

from __future__ import annotations

import pytest
import torch

from sweet_rl.errors import UserError
from sweet_rl.scoring.load import load_frozen, load_weights
from tests.support.tiny_models import save_tiny_chat_model


def test_a_model_for_scoring_is_frozen_and_in_evaluation_mode_and_one_for_training_is_not_frozen(tmp_path):
    path = save_tiny_chat_model(tmp_path / "model")
    frozen = load_frozen(path, torch.bfloat16, "cpu")
    assert frozen.dtype == torch.bfloat16 and not frozen.training
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    weights = load_weights(path)
    assert weights.dtype == torch.float32 and all(parameter.requires_grad for parameter in weights.parameters())


def test_what_is_no_model_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UserError, match=str(tmp_path)):
        load_weights(str(tmp_path))
