"""A reference model must mean the same by every token id."""

import json
import shutil
from pathlib import Path

import pytest

from sweet_rl.models.texts.vocabulary import check_vocabulary
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import save_tiny_chat_model


@pytest.fixture
def other(tiny_chat_model, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_chat_model, tmp_path / "other"))


def test_the_same_ids_pass_with_a_larger_embedding_and_without_a_chat_template(tiny_chat, tiny_critic, tmp_path):
    check_vocabulary(tiny_chat, tiny_critic, "--ref_pretrain")
    larger = Path(save_tiny_chat_model(tmp_path, vocab_size=300))
    (larger / "chat_template.jinja").unlink()
    check_vocabulary(tiny_chat, str(larger), "--ref_pretrain")


def test_two_exchanged_ids_are_named(tiny_chat, other):
    content = json.loads((other / "tokenizer.json").read_text())
    words = content["model"]["vocab"]
    words["a"], words["b"] = words["b"], words["a"]
    (other / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"--ref_pretrain {other} has another vocabulary than .*: the id of '[ab]' is"):
        check_vocabulary(tiny_chat, str(other), "--ref_pretrain")


def test_an_embedding_that_is_too_small_is_refused_with_and_without_a_tokenizer(tiny_chat, other, tmp_path):
    small = Path(save_tiny_chat_model(tmp_path / "small", vocab_size=259))
    with pytest.raises(UserError, match="it has 259 token ids, and the texts up to"):
        check_vocabulary(tiny_chat, str(small), "--ref_pretrain")
    for folder in (small, other):
        for file in folder.glob("*token*"):
            file.unlink()
    check_vocabulary(tiny_chat, str(other), "--ref_pretrain")
    with pytest.raises(UserError, match="no tokenizer, and 259 token ids instead of"):
        check_vocabulary(tiny_chat, str(small), "--ref_pretrain")
