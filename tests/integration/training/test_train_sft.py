"""train_sft.py imitates what the agent said in dialogues that succeeded, and nothing else."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.cli import arguments
from sweet_rl.runs.errors import UserError
from tests.support.command_line import read_rows, write_rows

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "train_sft.py"


def dialogue(number: int, reward: float | None, **fields) -> dict:
    return {
        "id": f"d{number}",
        "task": {"problem_description": f"task {number}", "ground_truth": "g", "test_cases": {}},
        "dialogue_history": [
            {"role": "user", "content": f"task {number}"},
            {"role": "assistant", "content": "What is the fee?"},
            {"role": "user", "content": "Two."},
            {"role": "assistant", "content": "return 2"},
        ],
        "answer": "return 2",
        "reward": reward,
        **fields,
    }


def train(**flags):
    main = runpy.run_path(str(SCRIPT))["main"]
    main(**arguments(main, flags))


def test_fine_tuning_lowers_the_loss_and_saves_a_loadable_model(tiny_chat_model, tmp_path):
    data = write_rows(tmp_path / "graded.jsonl", [dialogue(i, 1.0) for i in range(8)] + [dialogue(99, 0.5)])
    train(
        pretrain=tiny_chat_model, dataset=str(data), save_path=str(tmp_path / "out"),
        learning_rate=1e-2, max_epochs=10, train_batch_size=4, micro_train_batch_size=2, logging_steps=1,
    )  # fmt: skip
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= names
    assert "training_args.bin" not in names  # no pickle with the paths of this machine
    losses = [row["loss"] for row in read_rows(tmp_path / "out" / "training_log.jsonl")]
    assert len(losses) == 20 and losses[-1] < 0.7 * losses[0]
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    ChatFormat.from_pretrained(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["summary"]["trajectories"] == 8


def test_a_training_shorter_than_the_logging_interval_has_figures_of_its_end_and_another_least_reward_is_another(
    tiny_chat_model, tmp_path
):
    data = write_rows(tmp_path / "graded.jsonl", [dialogue(i, 1.0) for i in range(6)])
    settings = {"pretrain": tiny_chat_model, "dataset": data, "train_batch_size": 2, "logging_steps": 2}
    train(save_path=str(tmp_path / "out"), **settings)
    log = read_rows(tmp_path / "out" / "training_log.jsonl")
    assert [line["step"] for line in log] == [2, 3]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["summary"]["last"]["loss"] == log[-1]["loss"]
    with pytest.raises(UserError, match=" min_reward: 1.0 -> 0.5"):
        train(save_path=str(tmp_path / "out"), min_reward=0.5, **settings)
