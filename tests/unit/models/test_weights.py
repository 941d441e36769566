"""A model by its name: its context, errors for what cannot be loaded, weights for training and scoring."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from sweet_rl.models.log_probs.value_head import load_value_model
from sweet_rl.models.weights import check_length, context_length, load_config, load_frozen, load_weights, save_weights
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import save_tiny_chat_model

LONGROPE = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 8.0, 40.0],
    "original_max_position_embeddings": 64, "factor": 4.0,
}  # fmt: skip
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize("family, settings, expected", [
    ("llama", {"max_position_embeddings": 64}, 64),
    ("gpt2", {"n_positions": 64}, 64),
    ("mistral", {"max_position_embeddings": 64, "sliding_window": 8}, 64),
    ("gemma3", {"text_config": {"max_position_embeddings": 64, "sliding_window": 8}}, 64),
    ("bloom", {}, None),
    ("mamba", {}, None),
    ("llama", {"max_position_embeddings": 64, "rope_parameters": DYNAMIC}, 64),
    ("llama", {"max_position_embeddings": 64, "rope_parameters": YARN}, 256),
    ("llama", {"max_position_embeddings": 256, "rope_parameters": YARN}, 256),
    ("phi3", {"max_position_embeddings": 256, "rope_parameters": LONGROPE, "hidden_size": 32, "num_attention_heads": 4,
              "original_max_position_embeddings": 64}, 64),
])  # fmt: skip
def test_the_context_is_what_positions_allow_for_texts_of_any_length_and_no_window(family, settings, expected):
    config = AutoConfig.for_model(family, **settings)
    assert context_length(config) == expected
    check_length(expected or 10**6, expected, "here")
    if expected is not None:
        with pytest.raises(UserError, match=f"line 3: {expected + 1} tokens, .* has {expected}. Do this."):
            check_length(expected + 1, expected, "line 3", "Do this.")


@pytest.fixture
def model(tiny_chat_model, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_chat_model, tmp_path / "model"))


@pytest.fixture
def shards(tiny_chat_model, tmp_path) -> Path:
    AutoModelForCausalLM.from_pretrained(tiny_chat_model).save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    return tmp_path / "shards"


def test_a_damaged_checkpoint_is_refused_by_its_name(model, shards):
    content = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(content[:-1])
    for read in (load_weights, load_value_model):
        with pytest.raises(UserError, match=f"{model}"):
            read(model)
    (model / "model.safetensors").unlink()
    max(shards.glob("*.safetensors")).unlink()
    for folder in (model, shards):
        with pytest.raises(UserError, match=f"{folder}"):
            load_weights(folder)
    (model / "config.json").write_text("{")
    for folder in (model, model / "nowhere"):
        with pytest.raises(UserError, match=f"{folder}"):
            load_config(folder)


def test_a_model_for_scoring_is_frozen_and_in_evaluation_mode_and_one_for_training_is_not_frozen(
    tiny_chat_model,
):
    frozen = load_frozen(tiny_chat_model, torch.bfloat16, "cpu")
    assert frozen.dtype == torch.bfloat16 and not frozen.training
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    weights = load_weights(tiny_chat_model)
    assert weights.dtype == torch.float32 and all(parameter.requires_grad for parameter in weights.parameters())


@pytest.mark.parametrize("load", [load_weights, load_frozen])
def test_a_checkpoint_that_lacks_a_weight_is_refused_naming_it_in_one_file_or_in_several(load, model, shards):
    gone = "model.layers.1.mlp.down_proj.weight"
    weights = load_file(model / "model.safetensors")
    save_file({name: weight for name, weight in weights.items() if name != gone}, model / "model.safetensors")
    index = json.loads((shards / "model.safetensors.index.json").read_text())
    shard = shards / index["weight_map"].pop(gone)
    save_file({name: weight for name, weight in load_file(shard).items() if name != gone}, shard)
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))
    for folder in (model, shards):
        with pytest.raises(UserError, match=f"{folder}: .* lacks .* {gone}"):
            load(folder)


def test_a_tied_projection_is_no_missing_weight_and_an_untied_one_is(tmp_path):
    for tied in (True, False):
        folder = save_tiny_chat_model(tmp_path / str(tied), tie_word_embeddings=tied)
        weights = load_file(f"{folder}/model.safetensors")
        assert ("lm_head.weight" in weights) == (not tied)
        if tied:
            load_weights(folder)
            continue
        del weights["lm_head.weight"]
        save_file(weights, f"{folder}/model.safetensors")
        with pytest.raises(UserError, match="lacks 1 of its weights, the first of them lm_head.weight"):
            load_weights(folder)


@pytest.mark.parametrize("check", [load_config, load_weights])
def test_an_adapter_is_no_model_neither_alone_nor_beside_weights(check, model, tmp_path):
    peft = pytest.importorskip("peft")
    base = AutoModelForCausalLM.from_pretrained(model)
    peft.get_peft_model(base, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    with pytest.raises(UserError, match=f"{tmp_path / 'adapter'}: .* adapter .*merge"):
        check(tmp_path / "adapter")
    shutil.copy(tmp_path / "adapter" / "adapter_config.json", model)
    with pytest.raises(UserError, match=f"{model}: .* adapter"):
        check(model)


def test_a_model_is_saved_with_its_generation_settings_also_if_transformers_would_refuse_them(model, tmp_path):
    trained = load_weights(model)
    trained.save_pretrained(str(tmp_path / "plain"))
    save_weights(trained, tmp_path / "ours")
    for path in sorted((tmp_path / "plain").iterdir()):
        assert (tmp_path / "ours" / path.name).read_bytes() == path.read_bytes()
    trained.generation_config.update(temperature=0.7, top_p=0.9, do_sample=False)  # as many published models have it
    with pytest.raises(ValueError, match="temperature"):
        trained.save_pretrained(str(tmp_path / "plain"))
    save_weights(trained, tmp_path / "again")
    saved = json.loads((tmp_path / "again" / "generation_config.json").read_text())
    assert (saved["temperature"], saved["top_p"]) == (0.7, 0.9)
    assert load_weights(tmp_path / "again").state_dict().keys() == trained.state_dict().keys()


def test_the_embedding_of_an_end_of_text_that_is_the_pad_too_is_trained(model):
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(settings | {"pad_token_id": 5, "eos_token_id": 5}))
    trained = load_weights(model)
    ids = torch.tensor([[3, 5, 4]])
    trained(input_ids=ids, labels=ids).loss.backward()
    assert trained.get_input_embeddings().weight.grad[5].abs().sum() > 0
