"""A checkpoint with a damaged or missing file is named, and a training never goes on with half of one."""

from __future__ import annotations

import itertools
import json
import runpy
import shutil
from pathlib import Path

import pytest

from sweet_rl.runs.cli.groups import arguments
from sweet_rl.runs.errors import UserError
from sweet_rl.training import loop
from sweet_rl.training.checkpoints import COMPLETE
from tests.support.command_line import ROOT
from tests.support.tiny_models import EOS, save_tiny_chat_model

FLAGS = {"train_batch_size": 2, "learning_rate": 1e-3, "save_steps": 2}


class Killed(BaseException):
    pass


def train(folder: Path, save_path: Path) -> None:
    main = runpy.run_path(str(ROOT / "scripts" / "train_sft.py"))["main"]
    flags = {"pretrain": str(folder / "model"), "dataset": str(folder / "pairs.jsonl"), "save_path": str(save_path)}
    main(**arguments(main, FLAGS | flags))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """A folder with a training `run` that was killed in its fourth step, after the checkpoint of the second."""
    folder = tmp_path_factory.mktemp("stopped")
    save_tiny_chat_model(folder / "model")
    prompt = {"text": f"<|bos|><|user|>Hello.{EOS}<|assistant|>", "train": False}
    texts = [[prompt, {"text": f"{n}{EOS}", "train": True}] for n in range(8)]
    rows = [json.dumps({"chosen": text, "rejected": text}) for text in texts]
    (folder / "pairs.jsonl").write_text("\n".join(rows) + "\n")
    losses = loop.batch_losses
    calls = itertools.count(1)

    def killed(*arguments):
        if next(calls) == 5:  # the fourth step, after the check before a checkpoint
            raise Killed
        return losses(*arguments)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(loop, "batch_losses", killed)
        train(folder, folder / "run")
    return folder


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", "state.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "zeroed", "one bit"])
def test_a_damaged_file_is_named_and_nothing_is_trained_with_it(name, damage, stopped, tmp_path):
    shutil.copytree(stopped / "run", tmp_path / "run")
    file = tmp_path / "run" / "checkpoints" / "checkpoint-2" / name
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        half = len(content) // 2
        flipped = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        file.write_bytes({"cut": content[:-9], "zeroed": bytes(len(content)), "one bit": flipped}[damage])
    with pytest.raises(UserError, match=f"{file} .*Remove the checkpoint"):
        train(stopped, tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"[1]"])
def test_a_damaged_mark_is_a_damaged_checkpoint_and_an_old_one_is_continued(content, stopped, tmp_path, capsys):
    shutil.copytree(stopped / "run", tmp_path / "run")
    mark = tmp_path / "run" / "checkpoints" / "checkpoint-2" / COMPLETE
    mark.write_bytes(content)
    with pytest.raises(UserError, match="checkpoint-2 is damaged"):
        train(stopped, tmp_path / "run")
    mark.write_text('{"processes": 1}')  # without the sizes of the files
    train(stopped, tmp_path / "run")
    assert "going on from step 2" in capsys.readouterr().out and (tmp_path / "run" / "model.safetensors").exists()
