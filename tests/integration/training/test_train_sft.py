"""train_sft.py imitates what the agent said in dialogues that succeeded, and nothing else."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from sweet_rl.chat import ChatFormat
from sweet_rl.cli.groups import arguments
from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory, read_records
from sweet_rl.training.examples import DROPPED, encode_trajectories, successful
from sweet_rl.training.settings import DataSettings
from tests.support.tiny_models import save_tiny_chat_model

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


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"))


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def train(**flags):
    main = runpy.run_path(str(SCRIPT))["main"]
    main(**arguments(main, flags))


def test_fine_tuning_lowers_the_loss_and_saves_a_loadable_model(model, tmp_path):
    data = write(tmp_path / "graded.jsonl", [dialogue(i, 1.0) for i in range(8)] + [dialogue(99, 0.5)])
    train(
        pretrain=model, dataset=data, save_path=str(tmp_path / "out"), learning_rate=1e-2, max_epochs=10,
        train_batch_size=4, micro_train_batch_size=2, logging_steps=1,
    )  # fmt: skip
    losses = [json.loads(line)["loss"] for line in open(tmp_path / "out" / "training_log.jsonl")]
    assert len(losses) == 20 and losses[-1] < 0.7 * losses[0]
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    ChatFormat.from_pretrained(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["summary"]["trajectories"] == 8


def test_a_training_shorter_than_the_logging_interval_has_figures_of_its_end(model, tmp_path):
    data = write(tmp_path / "graded.jsonl", [dialogue(i, 1.0) for i in range(6)])
    settings = {"pretrain": model, "dataset": data, "train_batch_size": 2, "logging_steps": 2}
    train(save_path=str(tmp_path / "out"), **settings)
    log = [json.loads(line) for line in open(tmp_path / "out" / "training_log.jsonl")]
    assert [line["step"] for line in log] == [2, 3]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["summary"]["last"]["loss"] == log[-1]["loss"]


def test_only_the_agents_tokens_are_trained(model, tmp_path):
    chat = ChatFormat.from_pretrained(model)
    rows = read_records(write(tmp_path / "t.jsonl", [dialogue(1, 1.0)]), Trajectory)
    (text,) = encode_trajectories(rows, chat, DataSettings()).texts
    trained = chat.tokenizer.decode(text.ids[text.targets].tolist())
    assert trained == "What is the fee?<|end|>return 2<|end|>"
    assert text.turns.max() == 1


def test_sampled_ids_are_trained_as_they_are(model, tmp_path):
    chat = ChatFormat.from_pretrained(model)
    row = dialogue(1, 1.0, tokenizer=chat.fingerprint)
    row["dialogue_history"][1]["token_ids"] = [70, 71, 72]
    row["dialogue_history"][1]["finish_reason"] = "length"
    row["dialogue_history"][3]["token_ids"] = [80, chat.eos_ids[0]]
    rows = read_records(write(tmp_path / "t.jsonl", [row]), Trajectory)
    (text,) = encode_trajectories(rows, chat, DataSettings()).texts
    assert text.ids[text.targets].tolist() == [70, 71, 72, 80, chat.eos_ids[0]]


def test_failed_and_ungraded_dialogues_and_low_rewards_are_left_out(tmp_path):
    rows = [dialogue(0, 1.0), dialogue(1, 0.9), dialogue(2, None), dialogue(3, 1.0, ending="failed")]
    rows = read_records(write(tmp_path / "t.jsonl", rows), Trajectory)
    assert [t.id for t in successful(rows, 1.0, "t")] == ["d0"]
    assert [t.id for t in successful(rows, 0.5, "t")] == ["d0", "d1"]
    with pytest.raises(UserError, match="best: 1.0"):
        successful(rows, 2.0, "t")
    with pytest.raises(UserError, match="evaluate_code"):
        successful(rows[2:3], 1.0, "t")


def test_a_dialogue_that_is_too_long_is_dropped_and_all_of_them_are_an_error(model, tmp_path):
    chat = ChatFormat.from_pretrained(model)
    long = dialogue(0, 1.0)
    long["dialogue_history"][0]["content"] *= 30
    rows = read_records(write(tmp_path / "t.jsonl", [long, dialogue(1, 1.0)]), Trajectory)
    examples = encode_trajectories(rows, chat, DataSettings(max_len=100))
    assert len(examples) == 1 and examples.counts == {DROPPED: 1}
    with pytest.raises(UserError, match="none of its 2 trajectories"):
        encode_trajectories(rows, chat, DataSettings(max_len=10))
