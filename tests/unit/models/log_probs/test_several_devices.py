"""Models whose layers lie on several devices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accelerate.utils import send_to_device

from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.row_attention import RowAttention
from sweet_rl.models.log_probs.rows import lay_out
from sweet_rl.models.weights import load_frozen, load_weights
from tests.support.tiny_models import save_tiny_chat_model
from tests.unit.models.log_probs.test_logps import dialogue_texts


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.bfloat16, 0.05)])
def test_a_model_that_lies_in_several_places_scores_as_in_one(tmp_path, dtype, tolerance):
    path = save_tiny_chat_model(tmp_path / "model", tie_word_embeddings=False)
    places = dict.fromkeys(("model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb"), "cpu")
    places |= {"model.layers.1": "disk", "lm_head": "disk"}
    how = {"device_map": places, "offload_folder": tmp_path / "offloaded"}
    divided = load_weights(path, dtype, **how)
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
