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
from sweet_rl.training.engine import STATE, Engine
from sweet_rl.training.examples import encode_pairs
from sweet_rl.training.settings import DataSettings
from tests.support.tiny_models import EOS

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "train_dpo.py"


def train(**flags) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]
    main(**arguments(main, flags))


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in open(folder / "training_log.jsonl")]


def weights(path: Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(path).state_dict()


def write_pairs(path: Path, chat: ChatFormat, turns: int = 10) -> Path:
    """Four pairs a turn, two turns a task; the chosen reply asks, the rejected one does not."""
    draw = random.Random(0)
    with open(path, "w") as file:
        for turn in range(turns):
            prompt = chat.prompt([{"role": "user", "content": f"Write function number {turn}."}])
            for k in range(4):
                chosen = f"What about {draw.choice('abcd')}?"
                rejected = f"I am done {draw.choice('wxyz')}."
                row = {
                    "id": f"{turn}-{k}",
                    "task_id": f"task {turn // 2}",
                    "chosen": [*prompt, {"text": chosen + EOS, "train": True}],
                    "rejected": [*prompt, {"text": rejected + EOS, "train": True}],
                }
                file.write(json.dumps(row) + "\n")
    return path


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
    lines = [json.loads(line) for line in open(whole / "training_log.jsonl")]
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


def test_a_training_killed_before_its_first_checkpoint_says_that_it_starts_again(settings, tmp_path, capsys):
    class Killed(BaseException):
        pass

    def kill(*arguments):
        raise Killed

    flags = settings(tmp_path / "out", max_samples=8, max_epochs=1)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(loop, "batch_losses", kill)
        train(**flags)
    train(**flags)
    assert "going on from step 0 (no checkpoint had been written)" in capsys.readouterr().out


def test_a_killed_training_with_dropout_ends_with_the_same_bits_and_the_same_log(settings, tmp_path):
    """A line of the log is of three steps; the training is killed between two lines and between two checkpoints."""

    class Killed(BaseException):
        pass

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
    logs = [[json.loads(line) for line in open(tmp_path / name / "training_log.jsonl")] for name in ("whole", "killed")]
    for lines in logs:
        for line in lines:
            del line["tokens_per_second"], line["memory_gb"]
    assert logs[0] == logs[1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_fills_up_is_named_and_the_training_goes_on_when_there_is_room(settings, tmp_path, capsys):
    save = Engine.save
    saved = []

    def save_on_a_full_disk(self, folder):
        """At the second checkpoint there is no room for weights."""
        saved.append(folder)
        if len(saved) == 2:
            (folder / STATE).symlink_to("/dev/full")
        save(self, folder)

    flags = settings(tmp_path / "out", max_samples=32, max_epochs=1, save_steps=2)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(UserError, match=f"{tmp_path}/out: .*full"):
        patch.setattr(Engine, "save", save_on_a_full_disk)
        train(**flags)
    train(**flags)
    assert "going on from step 2" in capsys.readouterr().out
    assert len(losses(tmp_path / "out")) == 4


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


@pytest.mark.parametrize("changes, named", [
    ({"max_len": 3}, "none of its 40 pairs"), ({"micro_train_batch_size": 3}, "multiple"),
    ({"dataset": "/nowhere.jsonl"}, "/nowhere.jsonl"), ({"pretrain": "/nowhere"}, "/nowhere"),
    ({"ref_pretrain": "/nowhere"}, "/nowhere"),
])  # fmt: skip
def test_what_cannot_work_is_one_message_and_nothing_is_trained(settings, tmp_path, changes, named):
    with pytest.raises(UserError, match=named):
        train(**settings(tmp_path / "out", **changes))
    assert {path.name for path in (tmp_path / "out").glob("*")} <= {"manifest.json"}


def test_the_reference_may_be_another_model_than_the_one_that_is_trained(
    settings, tiny_chat_model, tiny_agent, tiny_chat, tmp_path
):
    flags = settings(tmp_path / "out", max_samples=8, max_epochs=1)
    train(**flags, ref_pretrain=tiny_agent)
    line, *_ = [json.loads(text) for text in open(tmp_path / "out" / "training_log.jsonl")]
    examples = encode_pairs(read_records(flags["dataset"], PreferencePair, 8), tiny_chat, DataSettings())
    own, ref = (score_texts(load_frozen(path, device="cpu"), examples.texts) for path in (tiny_chat_model, tiny_agent))
    ratio = [float((p - r).sum()) for p, r in zip(own, ref, strict=True)]
    expected = sum(0.1 * (ratio[chosen] - ratio[rejected]) for chosen, rejected in examples.rows) / 8
    assert abs(expected) > 1e-3 and line["margin"] == pytest.approx(expected, abs=1e-4)  # before the first step


def test_a_penalty_on_the_kl_keeps_the_model_near_its_reference(settings, tmp_path):
    kl = []
    for coef in (1e-6, 10.0):
        train(**settings(tmp_path / str(coef), kl_coef=coef, normalize="turn", max_epochs=1))
        kl.append([json.loads(line)["kl"] for line in open(tmp_path / str(coef) / "training_log.jsonl")])
    free, kept = kl
    assert free[0] == pytest.approx(0, abs=1e-5) and free[-1] > 1e-3 and kept[-1] < free[-1] / 2
