"""The value head: its values are those of plain forward passes, it learns, and it ranks."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.candidate_texts import encoded_candidates
from sweet_rl.errors import UserError
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.scoring.rows import EncodedText
from sweet_rl.scoring.shared_prefix import share_prompts
from sweet_rl.scoring.value_head import (
    attach_value_head,
    has_value_head,
    load_value_model,
    turn_values,
    value_batch,
    value_texts,
)
from sweet_rl.training.value import classification_losses, preference_value_losses
from tests.integration.training.test_train_sft import dialogue
from tests.support.tiny_models import EOS, save_tiny_chat_model, tiny_model
from tests.unit.scoring.test_logps import dialogue_texts

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def plain_values(model, texts: list[EncodedText], unit: str) -> torch.Tensor:
    """One text at a time: the head on the mean hidden state up to each turn's end."""
    out = []
    for text in texts:
        ids = torch.from_numpy(text.ids)[None]
        hidden = model.model(input_ids=ids).last_hidden_state[0]
        last = [text.targets[text.turns == turn][-1] + 1 for turn in range(text.turns[-1] + 1)]
        for end in last if unit == "turn" else [len(text)]:
            out.append(model.value_head(hidden[:end].mean(0))[0])
    return torch.stack(out)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma"])
@pytest.mark.parametrize("unit", ["turn", "trajectory"])
@pytest.mark.parametrize("share", [True, False])
def test_values_of_shared_rows_equal_one_pass_per_text_in_values_and_gradients(family, unit, share):
    model = attach_value_head(tiny_model(family), seed=5)
    texts = dialogue_texts()
    expected = plain_values(model, texts, unit)
    weights = torch.randn(len(expected), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (expected * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    if share:
        assert share_prompts(model)
    found = turn_values(model, value_batch(texts, share, unit=unit))
    (found * weights).sum().backward()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for name, gradient in gradients.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, rtol=1e-10, atol=1e-10)


def test_a_pairs_score_is_the_sum_over_turns():
    values, owner = torch.tensor([1.0, 2.0, -1.0]), torch.tensor([0, 0, 1])
    loss, metrics = preference_value_losses(values, owner, 2, torch.tensor([[0, 1], [1, 0]]), beta=0.5)
    # scores 1.5 and -0.5: margins 2 and -2
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)) + math.log(1 + math.exp(2)))
    assert metrics["accuracy"].item() == 1 and metrics["chosen_reward"].item() == pytest.approx(1.0)


def test_classification_is_the_cross_entropy_of_every_turn_averaged_by_dialogue():
    values, owner = torch.tensor([1.0, 3.0, -1.0]), torch.tensor([0, 0, 1])
    loss, metrics = classification_losses(values, owner, torch.tensor([1.0, 1.0]))
    won = [math.log(1 + math.exp(-value)) for value in (1, 3, -1)]
    assert loss.item() == pytest.approx((won[0] + won[1]) / 2 + won[2])
    assert metrics["accuracy"].item() == 1 and metrics["succeeded"].item() == 2


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"))


def train(**flags):
    runpy.run_path(str(SCRIPTS / "train_value.py"))["main"](**flags)


def pairs_file(path: Path, chat: ChatFormat) -> str:
    rows = []
    for turn in range(8):
        prompt = chat.prompt([{"role": "user", "content": f"Write function number {turn}."}])
        texts = [[*prompt, {"text": said + EOS, "train": True}] for said in ("What of it?", "I am done.")]
        rows.append({"id": str(turn), "chosen": texts[0], "rejected": texts[1]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture(scope="module")
def trained(model, tmp_path_factory) -> Path:
    """A value critic that prefers asking to being done."""
    folder = tmp_path_factory.mktemp("trained")
    data = pairs_file(folder / "pairs.jsonl", ChatFormat.from_pretrained(model))
    train(
        pretrain=model, dataset=data, save_path=str(folder / "out"), learning_rate=1e-2, max_epochs=6,
        train_batch_size=4, logging_steps=1,
    )  # fmt: skip
    return folder / "out"


def test_it_learns_from_pairs_and_loads_with_its_head_and_without(trained):
    lines = [json.loads(line) for line in open(trained / "training_log.jsonl")]
    assert lines[-1]["loss"] < 0.3 < lines[0]["loss"] and lines[-1]["accuracy"] == 1
    assert has_value_head(trained)
    model = load_value_model(str(trained), device="cpu")
    assert not any(p.requires_grad for p in model.parameters())
    plain = AutoModelForCausalLM.from_pretrained(trained)
    assert not hasattr(plain, "value_head")


def test_ranking_with_it_orders_by_the_value_of_each_candidate(trained, model, tmp_path):
    chat = ChatFormat.from_pretrained(model)
    task = {"problem_description": "f", "ground_truth": "def f(): return 1", "test_cases": {}}
    prompt = chat.prompt([{"role": "user", "content": "Write function number 3."}])
    outputs = ["I am done.", "What of it?", "Well then, what?"]
    row = {"id": "t", "task": task, "input": prompt, "older_output": "", "additional_outputs": outputs}
    (tmp_path / "candidates.jsonl").write_text(json.dumps(row) + "\n")
    rank = runpy.run_path(str(SCRIPTS / "rank_best_of_n.py"))["main"]
    files = {"input_path": str(tmp_path / "candidates.jsonl"), "output_path": str(tmp_path / "ranked.jsonl")}
    rank(model_id=str(trained), critic_type="value", no_prompt=True, **files)
    (ranked,) = read_records(tmp_path / "ranked.jsonl", TurnCandidates)
    assert ranked.judge_result.index(1) < ranked.judge_result.index(0)
    value_model = load_value_model(str(trained), device="cpu")
    texts = encoded_candidates(read_records(tmp_path / "candidates.jsonl", TurnCandidates)[0], chat, hint=False)
    expected = plain_values(value_model, texts, "trajectory").tolist()
    np.testing.assert_allclose(ranked.judge_scores, expected, atol=1e-5)
    np.testing.assert_allclose(value_texts(value_model, texts), expected, atol=1e-5)


def test_it_learns_success_from_graded_dialogues(model, tmp_path):
    rows = [dialogue(i, 1.0) for i in range(6)]
    for i, row in enumerate(rows[3:]):
        row["reward"], row["dialogue_history"][1]["content"] = 0.2 * i, "zz" * 20
    (tmp_path / "graded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train(
        pretrain=model, dataset=str(tmp_path / "graded.jsonl"), save_path=str(tmp_path / "out"),
        objective="classification", learning_rate=3e-3, max_epochs=20, train_batch_size=6, logging_steps=1,
    )  # fmt: skip
    lines = [json.loads(line) for line in open(tmp_path / "out" / "training_log.jsonl")]
    assert lines[-1]["accuracy"] == 1 and lines[-1]["loss"] < 0.5
    assert lines[0]["succeeded"] == 0.5


def test_a_model_without_a_head_is_refused(model):
    assert not has_value_head(model)
    with pytest.raises(UserError, match="train_value.py"):
        load_value_model(model)


@pytest.mark.parametrize("changes, message", [
    ({"objective": "other"}, "--objective"), ({"unit": "word"}, "--unit"), ({"beta": 0.0}, "--beta"),
])  # fmt: skip
def test_settings_that_mean_nothing_are_refused(model, tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        train(pretrain=model, dataset="x", save_path=str(tmp_path / "out"), **changes)
