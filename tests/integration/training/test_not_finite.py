"""NaN and infinity stop a training where they appear, and no model with them is saved."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training import loop
from tests.integration.training.test_train_dpo import train
from tests.support.command_line import write_rows
from tests.support.tiny_models import EOS, save_tiny_chat_model


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def flags(model, tmp_path_factory) -> dict:
    """Of four steps of DPO."""
    prompt = {"text": f"<|bos|><|user|>Hello.{EOS}<|assistant|>", "train": False}
    rows = [
        {side: [prompt, {"text": f"{side} {i}{EOS}", "train": True}] for side in ("chosen", "rejected")}
        for i in range(8)
    ]
    path = write_rows(tmp_path_factory.mktemp("data") / "pairs.jsonl", rows)
    return {
        "pretrain": model, "dataset": str(path), "learning_rate": 1e-3, "train_batch_size": 2, "save_steps": 1,
    }  # fmt: skip


def saved_step(folder: Path) -> str:
    (checkpoint,) = (folder / "checkpoints").glob("checkpoint-*")
    weights = torch.load(checkpoint / "training.pt", weights_only=True)["weights"]
    assert len(weights) > 10 and all(weight.isfinite().all() for weight in weights.values())
    return checkpoint.name


def spoiled(monkeypatch, spoil) -> None:
    """Call `spoil(model)` before the third step."""
    losses = loop.batch_losses
    steps = itertools.count(1)

    def before(model, *arguments):
        if torch.is_grad_enabled() and next(steps) == 3:
            spoil(model)
        return losses(model, *arguments)

    monkeypatch.setattr(loop, "batch_losses", before)


@torch.no_grad()
def one_weight_is_nan(model) -> None:
    list(model.parameters())[-2].view(-1)[-1] = torch.nan


def one_gradient_is_infinite(model) -> None:
    next(iter(model.parameters())).register_hook(lambda gradient: gradient + torch.inf)


@pytest.mark.parametrize(
    ("spoil", "found"),
    [(one_weight_is_nan, "step 3: the loss is nan"), (one_gradient_is_infinite, "step 3: the gradient norm is")],
)
def test_a_step_with_nan_stops_the_training_and_it_goes_on_from_the_last_checkpoint(
    spoil, found, flags, tmp_path, capsys
):
    flags = flags | {"save_path": str(tmp_path)}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(UserError, match=found):
        spoiled(patch, spoil)
        train(**flags)
    assert saved_step(tmp_path) == "checkpoint-2" and not (tmp_path / "model.safetensors").exists()
    train(**flags)
    assert "going on from step 2" in capsys.readouterr().out and (tmp_path / "model.safetensors").exists()
