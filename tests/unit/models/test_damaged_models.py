"""A model folder with a damaged file is one message that names the folder."""

import json
import shutil
from pathlib import Path

import pytest

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_weights
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import save_tiny_chat_model

BYTES = {"empty": b"", "garbage": b"\x00\xff\xfe", "nested": b"[" * 100_000, "list": b"[[1], [2]]", "number": b"7"}
KEYS = {
    "config.json": {"model_type": [[]], "hidden_size": -1, "head_dim": -1, "hidden_act": "no", "dtype": "no"},
    "tokenizer.json": {"version": -1, "added_tokens": "no", "model": []},
    "tokenizer_config.json": {"model_max_length": "no"},
    "generation_config.json": {"eos_token_id": [[]], "pad_token_id": "no"},
}


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    return Path(save_tiny_chat_model(tmp_path_factory.mktemp("model")))


@pytest.mark.parametrize("name", [*KEYS, "chat_template.jinja", "model.safetensors"])
def test_a_damaged_file_of_a_model_is_no_error_of_the_program(name, good, tmp_path):
    contents = list(BYTES.values()) + [(good / name).read_bytes()[:-20]]
    for key, value in KEYS.get(name, {}).items():
        contents.append(json.dumps(json.loads((good / name).read_text()) | {key: value}).encode())
    refused = 0
    for number, content in enumerate(contents):
        folder = shutil.copytree(good, tmp_path / str(number))
        (folder / name).write_bytes(content)
        for load in (ChatFormat.from_pretrained, load_weights):
            try:
                load(folder)
            except UserError as error:
                refused += 1
                assert str(folder) in str(error)
    assert refused >= len(contents) / 2
