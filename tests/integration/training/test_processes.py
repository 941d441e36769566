"""Trainings of two processes, by plain torch and by DeepSpeed, are those of one process; killed ones are continued."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import signal
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.integration.training.test_train_dpo import (
    KILLED_BEFORE_A_STEP,
    SCRIPT,
    losses,
    train,
    weights,
    write_pairs,
)
from tests.support.warm_processes import warm

pytestmark = pytest.mark.slow
needs_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="needs: pip install -e '.[test]'"
)
FLAGS = {
    "learning_rate": 3e-3, "max_epochs": 2, "train_batch_size": 8, "micro_train_batch_size": 2, "logging_steps": 1,
    "max_samples": 21,
}  # fmt: skip
# When it first starts on a machine DeepSpeed compiles a C++ module for inference, if it takes itself to be able to.
WITHOUT_COMPILING = """
import runpy

import deepspeed

deepspeed.ops.__compatible_ops__ = {{}}
runpy.run_path("{script}", run_name="__main__")
"""


@pytest.fixture(scope="module")
def place(tiny_chat_model, tiny_chat, tmp_path_factory) -> Path:
    """21 pairs (two whole batches and five pairs), and in one/ what this process makes of them in six steps."""
    place = tmp_path_factory.mktemp("place")
    write_pairs(place / "pairs.jsonl", tiny_chat, turns=6)
    train(**paths(place, tiny_chat_model, "one"), **FLAGS)
    (place / "with_deepspeed.py").write_text(WITHOUT_COMPILING.format(script=SCRIPT))
    return place


def paths(place: Path, model: str, name: str) -> dict[str, str]:
    return {"pretrain": model, "dataset": str(place / "pairs.jsonl"), "save_path": str(place / name)}


@pytest.fixture
def words(place, tiny_chat_model):
    """Makes the command line of a training that is saved under a name."""

    def words(name: str, *more: object, **changes: object) -> list[object]:
        settings = {**paths(place, tiny_chat_model, name), **FLAGS, **changes}
        return [word for flag, value in settings.items() for word in (f"--{flag}", value)] + list(more)

    return words


def kill(script: Path, place: Path, flags: list[object], processes: int) -> None:
    """Start a training on as many nodes as processes; each is killed in the second epoch."""
    (place / "killed.py").write_text(KILLED_BEFORE_A_STEP.format(step=4, script=script))
    code, printed = warm(place / "killed.py", flags, processes, nodes=processes)
    assert code == signal.SIGKILL, printed


def assert_as_one_process_trains(place: Path, name: str, tolerance: float = 1e-5) -> None:
    assert losses(place / name) == pytest.approx(losses(place / "one"), abs=tolerance)
    one, found = weights(place / "one"), weights(place / name)
    assert one.keys() == found.keys()
    for key in one:
        torch.testing.assert_close(found[key], one[key], rtol=0, atol=tolerance)


def test_two_processes_train_as_one_does(place, words):
    code, printed = warm(SCRIPT, words("two"), processes=2)
    assert code == 0, printed
    assert_as_one_process_trains(place, "two")


def test_killed_and_continued_a_training_ends_with_the_same_weights(place, words, tiny_chat_model, capsys):
    kill(SCRIPT, place, words("killed", "--save_minutes", 1e-9), processes=1)
    checkpoints = place / "killed" / "checkpoints"
    assert [path.name for path in checkpoints.glob("checkpoint-*")] == ["checkpoint-4"], "one is kept"
    (checkpoints / "partial").mkdir()  # torn
    train(**paths(place, tiny_chat_model, "killed"), **FLAGS | {"micro_train_batch_size": 4})
    printed = capsys.readouterr()
    assert "going on from step 4" in printed.out
    assert "reference log-probs" not in printed.err, "the reference is computed once"
    assert_as_one_process_trains(place, "killed", 1e-6)


@needs_deepspeed
def test_zero_3_on_two_nodes_killed_and_continued_trains_as_plain_torch_and_one_process_alone_is_refused(place, words):
    flags = words("three", "--zero_stage", 3, "--save_steps", 2)
    kill(place / "with_deepspeed.py", place, flags, processes=2)
    assert (place / "three" / "checkpoints" / "checkpoint-4").is_dir()
    (place / "three" / "checkpoints" / "partial").mkdir()  # torn
    shutil.copytree(place / "three", place / "alone")

    released = "--eval_steps -1 --flash_attn --chosen_key chosen --rejected_key rejected".split()
    code, printed = warm(place / "with_deepspeed.py", [*flags, *released, "--local_rank=0"], processes=2)
    assert code == 0 and "going on from step 4" in printed, printed[-3000:]
    assert printed.count("without effect here: --flash_attn") == 1  # by the first process
    code, alone = warm(place / "with_deepspeed.py", words("alone", "--zero_stage", 3))
    assert code == 2 and "was written by 2 processes" in alone, alone[-3000:]
    assert_as_one_process_trains(place, "three")


@needs_deepspeed
def test_an_adapter_of_a_divided_model_is_merged_into_a_whole_model(place, words, tiny_chat_model):
    from peft import PeftModel

    name, more = "lora", ["--zero_stage", 3, "--bf16", "--lora_rank", 2, "--gradient_checkpointing"]
    flags = words(name, *more, max_epochs=1, learning_rate=1e-2)
    code, printed = warm(place / "with_deepspeed.py", flags, processes=2)
    assert code == 0 and "gradient_checkpointing_enable` is deprecated" not in printed, printed[-3000:]
    log = [json.loads(line) for line in open(place / name / "training_log.jsonl")]
    assert log[0]["loss"] == pytest.approx(math.log(2), abs=1e-4) and log[-1]["loss"] < math.log(2)
    base = AutoModelForCausalLM.from_pretrained(tiny_chat_model)
    merged = PeftModel.from_pretrained(base, str(place / name / "adapter")).merge_and_unload().state_dict()
    for key, weight in weights(place / name).items():
        torch.testing.assert_close(weight, merged[key].bfloat16(), rtol=0, atol=0)
