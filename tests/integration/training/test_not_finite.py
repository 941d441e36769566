"""NaN and infinity stop a training where they appear, and no model with them is saved or loaded."""

from __future__ import annotations

import itertools
import json
import runpy
from pathlib import Path

import pytest
import torch

from sweet_rl.models.weights import load_frozen, load_weights
from sweet_rl.runs.cli import arguments
from sweet_rl.runs.errors import UserError
from sweet_rl.training import loop
from tests.support.command_line import ROOT, call
from tests.support.tiny_models import EOS, save_tiny_chat_model


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def flags(model, tmp_path_factory) -> dict:
    """Of four steps of DPO."""
    prompt = {"text": f"<|bos|><|user|>Hello.{EOS}<|assistant|>", "train": False}
    rows = [
        {"chosen": [prompt, {"text": f"good {i}{EOS}", "train": True}],
         "rejected": [prompt, {"text": f"bad {i}{EOS}", "train": True}]}
        for i in range(8)
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "pretrain": model, "dataset": str(path), "learning_rate": 1e-3, "train_batch_size": 2, "save_steps": 1,
    }  # fmt: skip


def train(flags: dict, script: str = "train_dpo.py") -> None:
    main = runpy.run_path(str(ROOT / "scripts" / script))["main"]
    main(**arguments(main, flags))


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
        train(flags)
    assert saved_step(tmp_path) == "checkpoint-2" and not (tmp_path / "model.safetensors").exists()
    train(flags)
    assert "going on from step 2" in capsys.readouterr().out and (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("changes", [{"bf16": True, "lora_rank": 2}, {"max_norm": 0.0}])
def test_a_learning_rate_that_bursts_the_weights_fails_again_and_is_never_complete(changes, flags, tmp_path):
    flags = flags | {"save_path": str(tmp_path), "learning_rate": 1e30, "warmup_ratio": 0.0} | changes
    for _ in range(2):
        result = call("train_dpo.py", **flags)
        assert result.code == 2 and "error: step " in result.err and "already complete" not in result.out
        assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.norm.weight"])
def test_a_model_with_nan_is_not_loaded_and_its_first_such_weight_is_named(name, value, model, tmp_path):
    broken = load_weights(model)
    names = [key for key, _ in broken.named_parameters()]
    with torch.no_grad():
        for key in (name, names[-1]):
            broken.get_parameter(key).view(-1)[-1] = value
    broken.save_pretrained(tmp_path)
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(UserError, match=f"{tmp_path}.*The weight {name} holds NaN or infinity"):
            load_frozen(tmp_path, dtype, "cpu")
