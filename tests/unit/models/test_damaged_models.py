"""A model folder with a damaged file, or a template that loops, is one message that names the folder."""

import json
import shutil
import threading
from pathlib import Path

import pytest

import sweet_rl.models.texts.chat
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


LOOPS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}"
    "{% endfor %}",
    "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}",
    "{{ 'x' * 10 ** 15 }}",
    "{% for a in range(10 ** 12) %}x{% endfor %}",
)


@pytest.mark.parametrize("template", LOOPS)
def test_a_template_without_end_is_stopped_in_every_thread(template, good, tmp_path, monkeypatch):
    monkeypatch.setattr(sweet_rl.models.texts.chat, "TEMPLATE_SECONDS", 0.2)
    folder = shutil.copytree(good, tmp_path / "model")
    (folder / "chat_template.jinja").write_text(template)
    found: list[str] = []

    def load() -> None:
        with pytest.raises(UserError) as error:
            ChatFormat.from_pretrained(folder)
        found.append(str(error.value))

    load()
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert len(found) == 2 and all(str(folder) in text for text in found)
