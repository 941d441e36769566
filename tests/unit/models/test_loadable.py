"""A checkpoint that cannot be loaded is told from one that can, without loading it."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from sweet_rl.errors import UserError
from sweet_rl.models.loadable import check_loadable
from tests.support.tiny_models import save_tiny_chat_model


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return Path(save_tiny_chat_model(tmp_path_factory.mktemp("model")))


@pytest.fixture
def model(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


@pytest.fixture
def shards(whole, tmp_path) -> Path:
    AutoModelForCausalLM.from_pretrained(whole).save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    return tmp_path / "shards"


def test_a_whole_checkpoint_passes_in_one_file_or_in_several(model, shards):
    check_loadable(model)
    check_loadable(shards)


def test_what_is_wrong_with_a_checkpoint_is_said(model):
    weights = model / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    with pytest.raises(UserError, match=f"{model}: .*model.safetensors is damaged"):
        check_loadable(model)
    weights.unlink()
    with pytest.raises(UserError, match="holds neither model.safetensors nor pytorch_model.bin"):
        check_loadable(model)
    weights.write_bytes(content)
    (model / "config.json").write_text("{")
    with pytest.raises(UserError, match="not a valid JSON file"):
        check_loadable(model)
    with pytest.raises(UserError, match="nowhere: no model can be loaded"):
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
