"""The value head: its values are those of plain forward passes, it learns, and it ranks."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from sweet_rl.method.candidate_texts import encoded_candidates
from sweet_rl.models.log_probs.value_head import load_value_model, value_texts
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.cli import arguments
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates, read_records
from tests.integration.training.test_train_sft import dialogue
from tests.support.command_line import ROOT, check_call, read_rows, write_rows
from tests.support.tiny_models import EOS
from tests.unit.models.log_probs.test_value_head import plain_values


def train(**flags):
    main = runpy.run_path(str(ROOT / "scripts" / "train_value.py"))["main"]
    main(**arguments(main, flags))


def pairs_file(path: Path, chat: ChatFormat) -> str:
    rows = []
    for turn in range(8):
        prompt = chat.prompt([{"role": "user", "content": f"Write function number {turn}."}])
        texts = [[*prompt, {"text": said + EOS, "train": True}] for said in ("What of it?", "I am done.")]
        rows.append({"id": str(turn), "chosen": texts[0], "rejected": texts[1]})
    return str(write_rows(path, rows))


@pytest.fixture(scope="module")
def trained(tiny_chat_model, tiny_chat, tmp_path_factory) -> Path:
    """A value critic that prefers asking to being done."""
    folder = tmp_path_factory.mktemp("trained")
    data = pairs_file(folder / "pairs.jsonl", tiny_chat)
    train(
        pretrain=tiny_chat_model, dataset=data, save_path=str(folder / "out"), learning_rate=1e-2, max_epochs=6,
        train_batch_size=4, logging_steps=1,
    )  # fmt: skip
    return folder / "out"


def test_it_learns_from_pairs_and_loads_with_its_head_and_without(trained):
    lines = read_rows(trained / "training_log.jsonl")
    assert lines[-1]["loss"] < 0.8 * lines[0]["loss"] and lines[-1]["accuracy"] == 1
    model = load_value_model(str(trained), device="cpu")
    assert not any(p.requires_grad for p in model.parameters())
    plain = AutoModelForCausalLM.from_pretrained(trained)
    assert not hasattr(plain, "value_head")


def test_ranking_with_it_orders_by_the_value_of_each_candidate(trained, tiny_chat, tmp_path):
    task = {"problem_description": "f", "ground_truth": "def f(): return 1", "test_cases": {}}
    prompt = tiny_chat.prompt([{"role": "user", "content": "Write function number 3."}])
    outputs = ["I am done.", "What of it?", "Well then, what?"]
    row = {"id": "t", "task": task, "input": prompt, "older_output": "", "additional_outputs": outputs}
    write_rows(tmp_path / "candidates.jsonl", [row])
    check_call(
        "rank_best_of_n.py", model_id=trained, critic_type="value", critic_settings='{"no_prompt": true}',
        input_path=tmp_path / "candidates.jsonl", output_path=tmp_path / "ranked.jsonl",
    )  # fmt: skip
    (ranked,) = read_records(tmp_path / "ranked.jsonl", TurnCandidates)
    assert ranked.judge_result.index(1) < ranked.judge_result.index(0)
    value_model = load_value_model(str(trained), device="cpu")
    texts = encoded_candidates(read_records(tmp_path / "candidates.jsonl", TurnCandidates)[0], tiny_chat, hint=False)
    expected = plain_values(value_model, texts, "trajectory").tolist()
    np.testing.assert_allclose(ranked.judge_scores, expected, atol=1e-5)
    np.testing.assert_allclose(value_texts(value_model, texts), expected, atol=1e-5)


def test_it_learns_success_from_graded_dialogues(tiny_chat_model, tmp_path):
    rows = [dialogue(i, 1.0) for i in range(6)]
    for i, row in enumerate(rows[3:]):
        row["reward"], row["dialogue_history"][1]["content"] = 0.2 * i, "zz" * 20
    write_rows(tmp_path / "graded.jsonl", rows)
    train(
        pretrain=tiny_chat_model, dataset=str(tmp_path / "graded.jsonl"), save_path=str(tmp_path / "out"),
        objective="classification", learning_rate=3e-3, max_epochs=20, train_batch_size=6, logging_steps=1,
    )  # fmt: skip
    lines = read_rows(tmp_path / "out" / "training_log.jsonl")
    assert lines[-1]["accuracy"] == 1 and lines[-1]["loss"] < 0.85 * lines[0]["loss"]
    assert lines[0]["succeeded"] == 0.5


def test_the_value_function_reads_the_solution_unless_it_is_withheld(tiny_chat_model, tmp_path):
    rows = [dialogue(number, float(number % 2)) for number in range(4)]
    for row in rows:
        row["task"]["ground_truth"] = "g" * 500
    write_rows(tmp_path / "graded.jsonl", rows)
    flags = {
        "pretrain": tiny_chat_model, "dataset": str(tmp_path / "graded.jsonl"), "objective": "classification",
        "max_len": 300, "train_batch_size": 4,
    }  # fmt: skip
    with pytest.raises(UserError, match="4 longer than max_len"):
        train(**flags, save_path=str(tmp_path / "hinted"))
    train(**flags, save_path=str(tmp_path / "plain"), no_prompt=True)
