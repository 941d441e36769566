"""train_dpo.py: it learns, saves, continues, and refuses what cannot work."""

from __future__ import annotations

import json
import math
import random
import runpy
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen
from sweet_rl.runs.cli import arguments
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, read_records
from sweet_rl.training import loop
from sweet_rl.training.examples import encode_pairs
from sweet_rl.training.settings import DataSettings
from tests.support.command_line import read_rows, write_rows
from tests.support.tiny_models import EOS

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "train_dpo.py"


def train(**flags) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]
    main(**arguments(main, flags))


def log_of(folder: Path) -> list[dict]:
    return read_rows(folder / "training_log.jsonl")


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in log_of(folder)]


def weights(path: Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(path).state_dict()


def write_pairs(path: Path, chat: ChatFormat, turns: int = 10) -> Path:
    """Four pairs a turn, two turns a task; the chosen reply asks, the rejected one does not."""
    draw, rows = random.Random(0), []
    for turn in range(turns):
        prompt = chat.prompt([{"role": "user", "content": f"Write function number {turn}."}])
        for k in range(4):
            texts = {"chosen": f"What about {draw.choice('abcd')}?", "rejected": f"I am done {draw.choice('wxyz')}."}
            sides = {side: [*prompt, {"text": text + EOS, "train": True}] for side, text in texts.items()}
            rows.append({"id": f"{turn}-{k}", "task_id": f"task {turn // 2}", **sides})
    return write_rows(path, rows)


@pytest.fixture(scope="module")
def pairs(tiny_chat, tmp_path_factory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.jsonl", tiny_chat)


@pytest.fixture(scope="module")
def settings(tiny_chat_model, pairs):
    """Makes the settings of a training that is saved to a folder."""
    fixed = {
        "pretrain": tiny_chat_model, "dataset": str(pairs), "learning_rate": 3e-3, "max_epochs": 2,
        "train_batch_size": 8, "logging_steps": 1,
    }  # fmt: skip
    return lambda save_path, **changes: {**fixed, "save_path": str(save_path), **changes}


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory) -> Path:
    """37 pairs in micro-batches of 4: ten steps of seven or eight."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    train(**settings(folder, micro_train_batch_size=4, max_samples=37))
    return folder


def test_training_lowers_the_loss_moves_the_margin_and_saves_a_loadable_model(whole, tiny_chat_model, settings, capsys):
    lines = log_of(whole)
    assert len(lines) == 10
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-4), "the policy starts as the reference"
    assert lines[0]["margin"] == pytest.approx(0, abs=1e-4)
    assert lines[-1]["loss"] < 0.8 * lines[0]["loss"] and lines[-1]["margin"] > 0 and lines[-1]["accuracy"] == 1
    assert not (whole / "checkpoints").exists()
    tokenizer = AutoTokenizer.from_pretrained(whole)
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(tiny_chat_model).chat_template
    before, after = weights(tiny_chat_model), weights(whole)
    assert any(not torch.equal(before[name], after[name]) for name in before)

    with pytest.MonkeyPatch.context() as patch:  # a finished training reads no record
        patch.setattr("sweet_rl.training.run.read_records", None)
        train(**settings(whole, max_samples=37))
    assert "already complete" in capsys.readouterr().out
    with pytest.raises(UserError, match="beta"):
        train(**settings(whole, max_samples=37, beta=0.5))


KILLED_BEFORE_A_STEP = """
import os, runpy, signal

from sweet_rl.training import loop

check_finite = loop.check_finite


def killed_before_a_step(step, *arguments):
    if step == {step} + 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return check_finite(step, *arguments)


loop.check_finite = killed_before_a_step
runpy.run_path("{script}", run_name="__main__")
"""


class Killed(BaseException):
    pass


def test_a_killed_training_with_dropout_ends_with_the_same_bits_and_the_same_log(settings, tmp_path):
    """A line of the log is of three steps; the training is killed between two lines and between two checkpoints."""
    check = loop.check_finite

    def kill(step, *arguments):
        if step == 4:
            raise Killed
        return check(step, *arguments)

    more = {"max_samples": 21, "save_steps": 2, "lora_rank": 2, "lora_dropout": 0.3, "logging_steps": 3}
    train(**settings(tmp_path / "whole", **more))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(loop, "check_finite", kill)
        train(**settings(tmp_path / "killed", **more))
    train(**settings(tmp_path / "killed", **more))
    whole, killed = (weights(tmp_path / name) for name in ("whole", "killed"))
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    logs = [log_of(tmp_path / name) for name in ("whole", "killed")]
    for lines in logs:
        for line in lines:
            del line["tokens_per_second"], line["memory_gb"]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("mode", [{"bf16": True}, {"lora_rank": 2, "bf16": True, "gradient_checkpointing": True}])
def test_the_first_loss_is_ln_2_in_bfloat16_too_and_the_weights_are_saved_in_it(settings, tmp_path, mode):
    train(**settings(tmp_path / "out", max_samples=8, max_epochs=1, **mode))
    assert losses(tmp_path / "out") == pytest.approx([math.log(2)], abs=1e-4)
    assert {weight.dtype for weight in weights(tmp_path / "out").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_the_precision_is_that_of_the_flags_whatever_a_launcher_says(whole, settings, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    AcceleratorState._reset_state()  # it keeps the variable of the first training of a process
    train(**settings(tmp_path / "out", micro_train_batch_size=4, max_samples=37))
    AcceleratorState._reset_state()
    assert losses(tmp_path / "out") == losses(whole)


def test_the_reference_may_be_another_model_than_the_one_that_is_trained(
    settings, tiny_chat_model, tiny_agent, tiny_chat, tmp_path
):
    flags = settings(tmp_path / "out", max_samples=8, max_epochs=1)
    train(**flags, ref_pretrain=tiny_agent)
    line = log_of(tmp_path / "out")[0]
    examples = encode_pairs(read_records(flags["dataset"], PreferencePair, 8), tiny_chat, DataSettings())
    own, ref = (score_texts(load_frozen(path, device="cpu"), examples.texts) for path in (tiny_chat_model, tiny_agent))
    ratio = [float((p - r).sum()) for p, r in zip(own, ref, strict=True)]
    expected = sum(0.1 * (ratio[chosen] - ratio[rejected]) for chosen, rejected in examples.rows) / 8
    assert abs(expected) > 1e-3 and line["margin"] == pytest.approx(expected, abs=1e-4)  # before the first step


def test_a_penalty_on_the_kl_keeps_the_model_near_its_reference(settings, tmp_path):
    kl = []
    for coef in (1e-6, 10.0):
        train(**settings(tmp_path / str(coef), kl_coef=coef, normalize="turn", max_epochs=1))
        kl.append([line["kl"] for line in log_of(tmp_path / str(coef))])
    free, kept = kl
    assert free[0] == pytest.approx(0, abs=1e-5) and free[-1] > 1e-3 and kept[-1] < free[-1] / 2
