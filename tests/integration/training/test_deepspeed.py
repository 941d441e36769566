"""DeepSpeed on two processes trains as plain torch does in one; killed, its launcher or one process continues it."""

from __future__ import annotations

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
from tests.support.launched import deepspeed, run_together
from tests.support.warm_processes import warm

pytest.importorskip("deepspeed", reason="needs: pip install -e '.[test]'")
pytestmark = pytest.mark.slow

FLAGS = {
    "learning_rate": 3e-3, "max_epochs": 1, "train_batch_size": 8, "micro_train_batch_size": 2, "logging_steps": 1,
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
    """21 pairs (two whole batches and five pairs), in one/ what one process makes of them, and the script."""
    place = tmp_path_factory.mktemp("place")
    write_pairs(place / "pairs.jsonl", tiny_chat, turns=6)
    train(**paths(place, tiny_chat_model, "one"), **FLAGS)
    (place / "train.py").write_text(WITHOUT_COMPILING.format(script=SCRIPT))
    return place


def paths(place: Path, model: str, name: str) -> dict[str, str]:
    return {"pretrain": model, "dataset": str(place / "pairs.jsonl"), "save_path": str(place / name)}


@pytest.fixture
def words(place, tiny_chat_model):
    """Makes the command line of a training that is saved under a name."""

    def words(name: str, *more: object) -> list[object]:
        settings = {**paths(place, tiny_chat_model, name), **FLAGS}
        return [word for flag, value in settings.items() for word in (f"--{flag}", value)] + list(more)

    return words


def test_zero_3_on_two_nodes_killed_and_continued_by_two_processes_or_one_trains_as_plain_torch(place, words):
    flags = words("three", "--zero_stage", 3, "--save_steps", 1)
    killed = place / "killed.py"
    killed.write_text(KILLED_BEFORE_A_STEP.format(step=2, script=place / "train.py"))
    code, printed = warm(killed, flags, processes=2, nodes=2)
    assert code == signal.SIGKILL and (place / "three" / "checkpoints" / "checkpoint-2").is_dir(), printed
    (place / "three" / "checkpoints" / "checkpoint-5").mkdir()  # torn
    shutil.copytree(place / "three", place / "alone")

    released = "--eval_steps -1 --flash_attn --chosen_key chosen --rejected_key rejected".split()
    code, printed = run_together(deepspeed(place / "train.py", [*flags, *released], place))
    assert code == 0 and "going on from step 2" in printed, printed[-3000:]
    assert printed.count("--flash_attn is not needed") == 1  # by the first process
    code, alone = warm(place / "train.py", words("alone", "--zero_stage", 3))
    assert code == 0 and "going on from step 2" in alone, alone[-3000:]
    one = weights(place / "one")
    for name in ("three", "alone"):
        assert losses(place / name) == pytest.approx(losses(place / "one"), abs=1e-5)
        found = weights(place / name)
        assert one.keys() == found.keys()
        for key in one:
            torch.testing.assert_close(found[key], one[key], rtol=0, atol=1e-5)


def test_zero_2_in_bfloat16_begins_at_ln_2_and_stays_near_float32(place, words):
    code, printed = warm(place / "train.py", words("two", "--zero_stage", 2, "--bf16", "--save_steps", "none"), 2)
    assert code == 0, printed[-3000:]
    found = losses(place / "two")
    assert found[0] == pytest.approx(math.log(2), abs=1e-4)
    assert found == pytest.approx(losses(place / "one"), abs=0.02)


def test_an_adapter_under_zero_3_is_merged_into_a_whole_model(place, words, tiny_chat_model):
    from peft import PeftModel

    flags = words("lora", "--zero_stage", 3, "--bf16", "--lora_rank", 2, "--activation_checkpointing")
    code, printed = warm(place / "train.py", flags, 2)
    assert code == 0 and "gradient_checkpointing` is deprecated" not in printed, printed[-3000:]
    log = [json.loads(line) for line in open(place / "lora" / "training_log.jsonl")]
    assert log[0]["loss"] == pytest.approx(math.log(2), abs=1e-4) and log[-1]["loss"] < math.log(2)
    base = AutoModelForCausalLM.from_pretrained(tiny_chat_model)
    merged = PeftModel.from_pretrained(base, str(place / "lora" / "adapter")).merge_and_unload().state_dict()
    for name, weight in weights(place / "lora").items():
        torch.testing.assert_close(weight, merged[name].bfloat16(), rtol=0, atol=0)
