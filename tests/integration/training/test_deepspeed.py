"""DeepSpeed on two processes trains as plain torch does in one, by each launcher, killed and continued."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.chat import ChatFormat
from tests.integration.training.test_train_dpo import (
    KILLED_BEFORE_A_STEP,
    SCRIPT,
    losses,
    train,
    weights,
    write_pairs,
)
from tests.support.launched import deepspeed, run_together, torchrun
from tests.support.tiny_models import save_tiny_chat_model

pytest.importorskip("deepspeed")
pytestmark = pytest.mark.slow

FLAGS = {
    "learning_rate": 3e-3, "max_epochs": 1, "train_batch_size": 8, "micro_train_batch_size": 2, "logging_steps": 1,
    "max_samples": 21,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A model, 21 pairs (two whole batches and five pairs), and in one/ what one process makes of them."""
    place = tmp_path_factory.mktemp("place")
    model = save_tiny_chat_model(place / "model")
    write_pairs(place / "pairs.jsonl", ChatFormat.from_pretrained(model), turns=6)
    train(**paths(place, "one"), **FLAGS)
    return place


def paths(place: Path, name: str) -> dict[str, str]:
    return {
        "pretrain": str(place / "model"), "dataset": str(place / "pairs.jsonl"), "save_path": str(place / name),
    }  # fmt: skip


def words(place: Path, name: str, *more: object) -> list[object]:
    settings = {**paths(place, name), **FLAGS}
    return [word for flag, value in settings.items() for word in (f"--{flag}", value)] + list(more)


def test_zero_3_on_two_nodes_killed_and_continued_by_two_processes_or_one_trains_as_plain_torch(place):
    flags = words(place, "three", "--zero_stage", 3, "--save_steps", 1)
    killed = place / "killed.py"
    killed.write_text(KILLED_BEFORE_A_STEP.format(step=2, script=SCRIPT))
    code, printed = run_together(torchrun(killed, flags, nodes=2))
    assert code != 0 and (place / "three" / "checkpoints" / "checkpoint-2").is_dir(), printed
    (place / "three" / "checkpoints" / "checkpoint-5").mkdir()  # torn
    shutil.copytree(place / "three", place / "alone")

    code, printed = run_together(deepspeed(SCRIPT, flags, place))
    assert code == 0 and "going on from step 2" in printed, printed[-3000:]
    flags = words(place, "alone", "--zero_stage", 3)
    code, alone = run_together([[sys.executable, str(SCRIPT), *map(str, flags)]])
    assert code == 0 and "going on from step 2" in alone, alone[-3000:]
    one = weights(place / "one")
    for name in ("three", "alone"):
        assert losses(place / name) == pytest.approx(losses(place / "one"), abs=1e-5)
        found = weights(place / name)
        assert one.keys() == found.keys()
        for key in one:
            torch.testing.assert_close(found[key], one[key], rtol=0, atol=1e-5)


def test_zero_2_in_bfloat16_begins_at_ln_2_and_stays_near_float32(place):
    flags = words(place, "two", "--zero_stage", 2, "--bf16", "--save_steps", "none")
    code, printed = run_together(torchrun(SCRIPT, flags))
    assert code == 0, printed[-3000:]
    found = losses(place / "two")
    assert found[0] == pytest.approx(math.log(2), abs=1e-4)
    assert found == pytest.approx(losses(place / "one"), abs=0.02)


def test_an_adapter_under_zero_3_is_merged_into_a_whole_model(place):
    from peft import PeftModel

    flags = words(place, "lora", "--zero_stage", 3, "--bf16", "--lora_rank", 2, "--activation_checkpointing")
    code, printed = run_together(torchrun(SCRIPT, flags))
    assert code == 0 and "gradient_checkpointing` is deprecated" not in printed, printed[-3000:]
    log = [json.loads(line) for line in open(place / "lora" / "training_log.jsonl")]
    assert log[0]["loss"] == pytest.approx(math.log(2), abs=1e-4) and log[-1]["loss"] < math.log(2)
    base = AutoModelForCausalLM.from_pretrained(place / "model")
    merged = PeftModel.from_pretrained(base, str(place / "lora" / "adapter")).merge_and_unload().state_dict()
    for name, weight in weights(place / "lora").items():
        torch.testing.assert_close(weight, merged[name].bfloat16(), rtol=0, atol=0)
