"""Adapters: what they leave alone, and what their seed decides."""

from __future__ import annotations

import pytest
import torch

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import completion_logps
from sweet_rl.models.log_probs.rows import lay_out
from sweet_rl.models.log_probs.value_head import attach_value_head, load_value_model
from sweet_rl.models.weights import load_weights
from sweet_rl.runs.errors import UserError
from sweet_rl.training.lora import merge_adapter, with_adapter
from tests.support.tiny_models import tiny_model
from tests.unit.models.log_probs.test_logps import dialogue_texts

pytest.importorskip("peft")


def test_with_the_adapter_off_the_model_is_the_reference():
    model = tiny_model("llama")
    texts = dialogue_texts()
    share_prompts(model)
    with torch.no_grad():
        before = completion_logps(model, lay_out(texts))
        adapted = with_adapter(model, 4)
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
        assert (completion_logps(adapted, lay_out(texts)) - before).abs().max() > 0.1
        with adapted.disable_adapter():
            torch.testing.assert_close(completion_logps(adapted, lay_out(texts)), before, rtol=0, atol=1e-12)


def test_rank_scale_and_seed_are_those_asked_for_and_only_adapter_and_value_head_are_trained():
    def adapted(**settings):
        return with_adapter(attach_value_head(tiny_model("llama")), **settings)

    model = adapted(rank=3)
    config = model.peft_config["default"]
    assert (config.r, config.lora_alpha) == (3, 6)
    assert adapted(rank=3, alpha=5.0).peft_config["default"].lora_alpha == 5.0
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained and all("lora_" in name or "value_head" in name for name in trained)
    assert any("value_head" in name for name in trained) and not any("lm_head" in name for name in trained)

    def first(seed):
        named = adapted(rank=3, seed=seed).named_parameters()
        return next(parameter for name, parameter in named if "lora_A" in name)

    assert torch.equal(first(0), first(0)) and not torch.equal(first(0), first(1))


@pytest.mark.parametrize("module", ["lm_head", "embed_tokens"])
def test_an_adapter_on_a_matrix_that_is_embeddings_and_head_is_refused(module):
    assert with_adapter(tiny_model("llama", tie_word_embeddings=False), 2, target_modules=[module])
    with pytest.raises(UserError, match="target_modules"):
        with_adapter(tiny_model("llama", tie_word_embeddings=True), 2, target_modules=[module, "q_proj"])


def test_under_autocast_the_inputs_of_an_adapter_are_not_cast_and_its_gradients_are_those_of_peft():
    found = []
    for autocast in (False, True):
        model = with_adapter(tiny_model("llama").float(), 4, autocast=autocast)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.data.normal_(generator=torch.Generator().manual_seed(0))
        seen = []
        layer = model.get_submodule("base_model.model.model.layers.0.mlp.down_proj.lora_A.default")
        layer.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0].dtype))
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=torch.arange(3, 20)[None], labels=torch.arange(3, 20)[None]).loss
        loss.backward()
        assert seen == [torch.bfloat16 if autocast else torch.float32]
        found.append([loss.detach(), *(p.grad for p in model.parameters() if p.requires_grad)])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_merged_value_head_keeps_what_bfloat16_would_round_away(tiny_chat_model, tmp_path):
    model = with_adapter(attach_value_head(load_weights(tiny_chat_model, torch.bfloat16)), 2)
    with torch.no_grad():
        trained = model.base_model.model.value_head.modules_to_save["default"]
        trained.weight += 3e-5
    model.save_pretrained(tmp_path / "adapter")
    merge_adapter(tiny_chat_model, tmp_path / "adapter", tmp_path / "merged", torch.bfloat16)
    merged = load_value_model(str(tmp_path / "merged"), torch.bfloat16, "cpu")
    torch.testing.assert_close(merged.value_head.weight, trained.weight, rtol=0, atol=0)
    assert merged.dtype == torch.bfloat16
