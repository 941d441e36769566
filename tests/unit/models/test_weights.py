"""A model by its name: errors for what cannot be loaded, weights for training and scoring, GPUs that hold them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from sweet_rl.models import vllm_local, weights
from sweet_rl.models.log_probs.value_head import has_value_head
from sweet_rl.models.vllm_local import parallel_sizes
from sweet_rl.models.weights import (
    check_loadable,
    gpus_for,
    load_frozen,
    load_weights,
    parameter_count,
    save_weights,
)
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import save_tiny_chat_model

GIB = 2**30
NODE = [80 * GIB] * 8


@pytest.fixture
def model(tiny_chat_model, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_chat_model, tmp_path / "model"))


@pytest.fixture
def shards(tiny_chat_model, tmp_path) -> Path:
    AutoModelForCausalLM.from_pretrained(tiny_chat_model).save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    return tmp_path / "shards"


def test_a_whole_checkpoint_passes_in_one_file_or_in_several(model, shards):
    check_loadable(model)
    check_loadable(shards)


def test_what_is_wrong_with_a_checkpoint_is_said(model):
    weights = model / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    with pytest.raises(UserError, match=f"{model}: .*model.safetensors"):
        check_loadable(model)
    weights.unlink()
    with pytest.raises(UserError, match="neither"):
        check_loadable(model)
    weights.write_bytes(content)
    (model / "config.json").write_text("{")
    with pytest.raises(UserError, match="JSON"):
        check_loadable(model)
    with pytest.raises(UserError, match="nowhere: "):
        check_loadable(model / "nowhere")


def test_every_shard_must_be_there_and_whole(shards):
    shard = max(shards.glob("*.safetensors"))
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=f"{shard.name} is damaged"):
        check_loadable(shards)
    shard.unlink()
    with pytest.raises(UserError, match=f"{shard.name} is missing"):
        check_loadable(shards)
    (shards / "model.safetensors.index.json").write_text(json.dumps({"weights": {}}))
    with pytest.raises(UserError, match="index.json is damaged"):
        check_loadable(shards)


def test_a_model_for_scoring_is_frozen_and_in_evaluation_mode_and_one_for_training_is_not_frozen(
    tiny_chat_model,
):
    frozen = load_frozen(tiny_chat_model, torch.bfloat16, "cpu")
    assert frozen.dtype == torch.bfloat16 and not frozen.training
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    weights = load_weights(tiny_chat_model)
    assert weights.dtype == torch.float32 and all(parameter.requires_grad for parameter in weights.parameters())


def test_what_is_no_model_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UserError, match=str(tmp_path)):
        load_weights(str(tmp_path))


def test_parameters_are_counted_without_loading_weights(tiny_chat_model):
    weights = AutoModelForCausalLM.from_pretrained(tiny_chat_model)
    assert parameter_count(tiny_chat_model) == sum(p.numel() for p in weights.parameters())


@pytest.mark.parametrize("weights, memory, expected", [
    (16e9, NODE, 1),  # 8B in bfloat16
    (141e9, NODE, 4),  # 70B: two GPUs would leave 1 % for what is computed with it
    (282e9, NODE, 8),  # 70B with its reference model
    (141e9, NODE[:1], 1),
    (141e9, [141 * 10**9] * 8, 2),
    (1e15, NODE[:6], 6),
])  # fmt: skip
def test_weights_take_as_few_gpus_as_hold_them(weights, memory, expected):
    assert gpus_for(weights, memory) == expected


@pytest.fixture
def gpus(monkeypatch):
    """Sets the number of visible GPUs and their memory: this machine has none."""

    def see(count: int, memory: float = 80 * GIB) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(weights, "gpu_memory", lambda free=False: [memory] * count)
        monkeypatch.setattr(vllm_local, "gpu_memory", weights.gpu_memory)

    return see


def test_vllm_gets_as_many_engines_as_the_gpus_hold(gpus, tiny_chat_model):
    gpus(1)
    assert parallel_sizes(tiny_chat_model) == {}
    gpus(8)
    assert parallel_sizes(tiny_chat_model) == {"tensor_parallel_size": 1, "data_parallel_size": 8}
    gpus(8, memory=2 * parameter_count(tiny_chat_model) / 0.8 / 2)
    assert parallel_sizes(tiny_chat_model) == {"tensor_parallel_size": 2, "data_parallel_size": 4}


@pytest.mark.parametrize("free, expected", [([], False), ([9e5], False), ([1e6] * 2, False), ([2e5] * 2, True)])
def test_a_model_is_divided_if_one_gpu_of_several_is_too_small(monkeypatch, free, expected):
    monkeypatch.setattr(weights, "gpu_memory", lambda **_: free)
    monkeypatch.setattr(weights, "parameter_count", lambda path: 100_000)
    assert weights.needs_several_gpus("any", torch.float32) is expected


def test_a_critic_file_in_the_place_of_a_model_is_told_its_flag():
    with pytest.raises(UserError, match="--critic_type docs/examples/short_turns.py"):
        check_loadable("docs/examples/short_turns.py")


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


@pytest.mark.parametrize("check", [check_loadable, load_weights, parameter_count])
def test_an_adapter_is_no_model_neither_alone_nor_beside_weights(check, model, tmp_path):
    peft = pytest.importorskip("peft")
    base = AutoModelForCausalLM.from_pretrained(model)
    peft.get_peft_model(base, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    with pytest.raises(UserError, match=f"{tmp_path / 'adapter'}: .* adapter .*merge"):
        check(tmp_path / "adapter")
    shutil.copy(tmp_path / "adapter" / "adapter_config.json", model)
    with pytest.raises(UserError, match=f"{model}: .* adapter"):
        check(model)


def test_a_model_is_saved_with_its_generation_settings_also_if_transformers_refuses_to_write_them(model, tmp_path):
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
    assert (saved["temperature"], saved["top_p"]) == (0.7, 0.9) == (
        trained.generation_config.temperature, trained.generation_config.top_p,
    )  # fmt: skip
    assert load_weights(tmp_path / "again").state_dict().keys() == trained.state_dict().keys()


def test_the_embedding_of_an_end_of_text_that_is_the_pad_too_is_trained(model):
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(settings | {"pad_token_id": 5, "eos_token_id": 5}))
    trained = load_weights(model)
    ids = torch.tensor([[3, 5, 4]])
    trained(input_ids=ids, labels=ids).loss.backward()
    assert trained.get_input_embeddings().weight.grad[5].abs().sum() > 0


@pytest.mark.parametrize("content", ["[]", "{}", "[" * 100_000, '{"weight_map": []}', '{"weight_map": {"a": 5}}'])
def test_a_damaged_index_of_weights_is_named_by_all_that_read_it(content, shards):
    (shards / "model.safetensors.index.json").write_text(content)
    for read in (check_loadable, load_weights, has_value_head):
        with pytest.raises(UserError, match="model.safetensors.index.json is damaged"):
            read(shards)


def test_a_damaged_file_of_weights_is_named_where_a_head_is_looked_for(model):
    (model / "model.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(UserError, match="model.safetensors is damaged"):
        has_value_head(model)
