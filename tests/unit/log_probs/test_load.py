"""Models loaded for training and for scoring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accelerate.utils import send_to_device
from transformers import AutoModelForCausalLM

from sweet_rl.errors import UserError
from sweet_rl.log_probs import load
from sweet_rl.log_probs.load import load_frozen, load_pretrained, load_weights
from sweet_rl.log_probs.logps import score_texts
from sweet_rl.log_probs.rows import lay_out
from sweet_rl.log_probs.shared_prefix import RowAttention
from tests.support.tiny_models import save_tiny_chat_model
from tests.unit.log_probs.test_logps import dialogue_texts


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


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.bfloat16, 0.05)])
def test_a_model_that_lies_in_several_places_scores_as_in_one(tmp_path, dtype, tolerance):
    path = save_tiny_chat_model(tmp_path / "model", tie_word_embeddings=False)
    places = dict.fromkeys(("model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb"), "cpu")
    places |= {"model.layers.1": "disk", "lm_head": "disk"}
    how = {"device_map": places, "offload_folder": tmp_path / "offloaded"}
    divided = load_pretrained(AutoModelForCausalLM, path, dtype, **how)
    assert divided.lm_head.weight.device.type == "meta"
    found = score_texts(divided, dialogue_texts())
    for one, other in zip(found, score_texts(load_frozen(path, dtype, "cpu"), dialogue_texts()), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def test_the_rows_of_a_batch_follow_a_model_to_its_other_devices_once():
    batch = lay_out(dialogue_texts())
    rows = RowAttention(batch["layout"], batch["blocks"], batch["completions"], batch["position_ids"])
    assert rows.to("cpu") is rows
    moved = send_to_device({"rows": rows}, "meta")["rows"]
    assert moved is rows.to("meta") and moved.layout is rows.layout
    assert {x.device.type for x in (moved.blocks, moved.completions, moved.positions)} == {"meta"}


@pytest.mark.parametrize("free, expected", [([], False), ([9e5], False), ([1e6] * 2, False), ([2e5] * 2, True)])
def test_a_model_is_divided_if_one_gpu_of_several_is_too_small(monkeypatch, free, expected):
    monkeypatch.setattr(load, "gpu_memory", lambda **_: free)
    monkeypatch.setattr(load, "parameter_count", lambda path: 100_000)
    assert load.needs_several_gpus("any", torch.float32) is expected
