"""train_dpo.py by its command line: it learns, saves, continues, and refuses what cannot work."""

from __future__ import annotations

import json
import math
import os
import random
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweet_rl.chat import ChatFormat
from sweet_rl.cli.groups import arguments
from sweet_rl.errors import UserError
from tests.support.tiny_models import EOS, save_tiny_chat_model

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "train_dpo.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def command(*flags) -> list[str]:
    return [sys.executable, str(SCRIPT), *map(str, flags)]


def run(*flags) -> subprocess.CompletedProcess:
    return subprocess.run(command(*flags), capture_output=True, text=True, env=ENVIRONMENT, timeout=600)


def write_pairs(path: Path, chat: ChatFormat, turns: int = 10) -> Path:
    """Four pairs a turn; the chosen reply asks, the rejected one does not."""
    draw = random.Random(0)
    with open(path, "w") as file:
        for turn in range(turns):
            prompt = chat.prompt([{"role": "user", "content": f"Write function number {turn}."}])
            for k in range(4):
                chosen = f"What about {draw.choice('abcd')}?"
                rejected = f"I am done {draw.choice('wxyz')}."
                row = {
                    "id": f"{turn}-{k}",
                    "chosen": [*prompt, {"text": chosen + EOS, "train": True}],
                    "rejected": [*prompt, {"text": rejected + EOS, "train": True}],
                }
                file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def pairs(model, tmp_path_factory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.jsonl", ChatFormat.from_pretrained(model))


def settings(model, pairs, save_path) -> list:
    return [
        "--pretrain", model, "--dataset", pairs, "--save_path", save_path, "--learning_rate", "3e-3",
        "--max_epochs", "3", "--train_batch_size", "8", "--logging_steps", "1",
    ]  # fmt: skip


def weights(path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(path).state_dict()


@pytest.mark.slow
def test_training_lowers_the_loss_moves_the_margin_and_saves_a_loadable_model(model, pairs, tmp_path):
    done = run(*settings(model, pairs, tmp_path / "out"), "--micro_train_batch_size", "4")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in open(tmp_path / "out" / "training_log.jsonl")]
    assert len(lines) == 15
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-3), "the policy starts as the reference"
    assert lines[0]["margin"] == pytest.approx(0, abs=1e-3)
    assert lines[-1]["loss"] < 0.8 * lines[0]["loss"] and lines[-1]["margin"] > 0 and lines[-1]["accuracy"] == 1
    assert not (tmp_path / "out" / "checkpoints").exists()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(model).chat_template
    before, after = weights(model), weights(tmp_path / "out")
    assert any(not torch.equal(before[name], after[name]) for name in before)

    again = run(*settings(model, pairs, tmp_path / "out"))
    assert again.returncode == 0 and "already complete" in again.stdout
    other = run(*settings(model, pairs, tmp_path / "out"), "--beta", "0.5")
    assert other.returncode != 0 and "beta" in other.stderr


KILLED_BEFORE_STEP_7 = """
import os, runpy, signal, sys

from sweet_rl.training.trainer import GroupedTrainer

training_step = GroupedTrainer.training_step


def killed_before_step_7(self, *arguments, **named):
    if self.state.global_step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return training_step(self, *arguments, **named)


GroupedTrainer.training_step = killed_before_step_7
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_killed_and_continued_ends_with_the_same_weights(model, pairs, tmp_path):
    flags = settings(model, pairs, tmp_path / "killed")
    words = [sys.executable, "-c", KILLED_BEFORE_STEP_7, str(SCRIPT), *map(str, flags), "--save_steps", "1"]
    killed = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "killed" / "checkpoints" / "checkpoint-6").is_dir()
    torn = tmp_path / "killed" / "checkpoints" / "checkpoint-99"
    torn.mkdir()
    (reference,) = (tmp_path / "killed" / "checkpoints").glob("reference_logps-*-0-of-1.npy")
    stamp = reference.stat().st_mtime_ns

    process = run(*flags, "--save_steps", "4")
    assert process.returncode == 0, process.stderr
    assert "continuing from" in process.stderr
    assert stamp and "reference log-probs" not in process.stderr, "the reference is computed once"
    whole = run(*settings(model, pairs, tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    first, second = weights(tmp_path / "killed"), weights(tmp_path / "whole")
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_micro_batches_change_the_pace_and_nothing_else(model, pairs, tmp_path):
    for micro in (1, 8):
        done = run(
            *settings(model, pairs, tmp_path / str(micro)),
            "--micro_train_batch_size",
            micro,
            "--max_epochs",
            1,
        )
        assert done.returncode == 0, done.stderr
    losses = [
        [json.loads(line)["loss"] for line in open(tmp_path / micro / "training_log.jsonl")]
        for micro in ("1", "8")
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.slow
def test_two_processes_train_as_one_does(model, pairs, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    flags = [str(flag) for flag in settings(model, pairs, tmp_path / "two")]
    done = subprocess.run(
        [*torchrun, str(SCRIPT), *flags], capture_output=True, text=True, env=ENVIRONMENT, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert run(*settings(model, pairs, tmp_path / "one")).returncode == 0
    losses = [
        [json.loads(line)["loss"] for line in open(tmp_path / name / "training_log.jsonl")]
        for name in ("one", "two")
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.parametrize("changes, message", [
    ({"max_len": 3}, "none of its 40 pairs"),
    ({"normalize": "word"}, "--normalize"),
    ({"normalize": "none", "mean_log_prob": True}, "Give one"),
    ({"train_batch_size": 8, "micro_train_batch_size": 3}, "multiple"),
    ({"dataset": "/nowhere.jsonl"}, "/nowhere.jsonl"),
    ({"pretrain": "/nowhere"}, "/nowhere"),
    ({"zero_stage": 7}, "--zero_stage"),
    ({"lr_scheduler": "zigzag"}, "zigzag"),
])  # fmt: skip
def test_what_cannot_work_is_one_message_and_nothing_is_written(model, pairs, tmp_path, changes, message):
    flags = {"pretrain": model, "dataset": str(pairs), "save_path": str(tmp_path / "out"), **changes}
    with pytest.raises(UserError, match=message):
        main = runpy.run_path(str(SCRIPT))["main"]
        main(**arguments(main, flags))
    assert not (tmp_path / "out").exists()


def test_the_command_line_says_what_is_wrong_in_one_message(model, pairs, tmp_path):
    done = run(*settings(model, pairs, tmp_path / "out"), "--normalize", "none", "--mean_log_prob")
    assert done.returncode == 2
    assert "Give one" in done.stderr and "Traceback" not in done.stderr


def test_an_example_without_a_trained_token_is_named(model, tmp_path):
    row = {
        "id": "odd one",
        "chosen": [{"text": "a", "train": False}],
        "rejected": [{"text": "b", "train": True}],
    }
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    done = run("--pretrain", model, "--dataset", tmp_path / "pairs.jsonl", "--save_path", tmp_path / "out")
    assert done.returncode == 2 and "odd one" in done.stderr


@pytest.mark.slow
def test_strings_train_with_a_response_template_and_are_refused_without(model, tmp_path):
    head = "<|bos|><|user|>hello<|end|><|assistant|>"
    rows = [{"chosen": f"{head}good {i}{EOS}", "rejected": f"{head}bad {i}{EOS}"} for i in range(4)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--pretrain", model, "--dataset", tmp_path / "pairs.jsonl", "--save_path", tmp_path / "out"]
    assert "--response_template" in run(*flags).stderr
    done = run(*flags, "--response_template", "<|assistant|>")
    assert done.returncode == 0, done.stderr
