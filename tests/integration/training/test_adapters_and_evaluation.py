"""LoRA, held-out tasks, the best checkpoint, and what is logged, by train_dpo.py's and train_value.py's main."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.value_head import load_value_model
from sweet_rl.models.weights import load_frozen, load_weights
from sweet_rl.runs.cli import arguments, parse
from sweet_rl.runs.records import PreferencePair, read_records
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import encode_pairs
from sweet_rl.training.log import Log
from sweet_rl.training.loop import train as train_loop
from sweet_rl.training.run import make_engine
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings
from tests.integration.training.test_train_dpo import log_of, write_pairs
from tests.support.tiny_models import save_tiny_chat_model

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def train(script: str = "train_dpo.py", **flags):
    main = runpy.run_path(str(SCRIPTS / script))["main"]
    return main(**arguments(main, flags))


@pytest.fixture(scope="module")
def pairs(tiny_chat, tmp_path_factory) -> Path:
    """Ten turns of five tasks, four pairs each."""
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.jsonl", tiny_chat)


@pytest.fixture(scope="module")
def adapted(tiny_chat_model, pairs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("adapted") / "out"
    train(
        pretrain=tiny_chat_model, dataset=str(pairs), save_path=str(folder), learning_rate=1e-2, max_epochs=3,
        train_batch_size=8, logging_steps=1, lora_rank=4,
        report_to="tensorboard",
    )  # fmt: skip
    return folder


def test_an_adapter_learns_and_is_saved_by_itself_and_merged(adapted, tiny_chat_model):
    from peft import PeftModel

    lines = log_of(adapted)
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-3), "the policy starts as the reference"
    assert lines[-1]["loss"] < 0.9 * lines[0]["loss"]
    merged = AutoModelForCausalLM.from_pretrained(adapted)
    both = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_chat_model), str(adapted / "adapter"))
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, both(ids).logits, atol=1e-5, rtol=1e-5)
        plain = AutoModelForCausalLM.from_pretrained(tiny_chat_model)(ids).logits
        assert (merged(ids).logits - plain).abs().max() > 1e-3
    names = {path.name for path in (adapted / "adapter").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json"} <= names
    assert sum(p.numel() for n, p in both.named_parameters() if "lora" in n) < 0.2 * merged.num_parameters()


def test_the_log_has_what_one_looks_at(adapted):
    lines = log_of(adapted)
    wanted = {"margin", "accuracy", "chosen_reward", "rejected_reward", "grad_norm", "tokens_per_second", "memory_gb"}
    assert all(wanted <= line.keys() for line in lines)
    assert all(line["tokens_per_second"] > 0 and line["memory_gb"] > 0 for line in lines)
    assert list((adapted / "tensorboard").rglob("events.out.tfevents.*"))


def test_a_value_head_is_trained_whole_beside_an_adapter(tiny_chat_model, pairs, tmp_path):
    train(
        "train_value.py", pretrain=tiny_chat_model, dataset=str(pairs), save_path=str(tmp_path / "out"), lora_rank=2,
        learning_rate=1e-2, max_epochs=1, train_batch_size=8, logging_steps=1,
    )  # fmt: skip
    found = load_value_model(str(tmp_path / "out"), device="cpu")
    assert found.value_head.bias.abs().sum() > 0
    lines = log_of(tmp_path / "out")
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_a_trainings_losses_and_weights_are_those_of_the_plain_way_step_by_step(
    tiny_chat_model, tiny_chat, pairs, tmp_path
):
    """The same training twice, in float64: with shared prompts, and with one text a row."""
    examples = encode_pairs(read_records(pairs, PreferencePair), tiny_chat, DataSettings())
    frozen = load_frozen(tiny_chat_model, torch.float64, "cpu")
    reference = [values.astype(np.float64) for values in score_texts(frozen, examples.texts)]
    losses, weights = [], []
    repeated = 8 - len(np.unique(examples.rows[:4]))
    for shared in (True, False):
        loop = TrainingSettings(learning_rate=3e-3, max_epochs=1, train_batch_size=8, logging_steps=1)
        engine = make_engine(loop)
        policy = load_weights(tiny_chat_model, torch.float64)
        how = PreferenceSettings(beta=0.5, nll_loss_coef=0.1)
        objective = preference_objective(examples, reference, how, shared and share_prompts(policy))
        log = Log(engine.accelerator, [], tmp_path)
        assert len(objective.collate([0, 1, 2, 3])["input_ids"]) == (1 if shared else 8 - repeated)
        train_loop(policy, objective, examples, engine, log, Checkpoints(tmp_path, loop, engine), together=4)
        losses.append([line["loss"] for line in log.history])
        weights.append(policy.state_dict())
    assert len(losses[0]) == 5
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-9)
    for name in weights[0]:
        torch.testing.assert_close(weights[0][name], weights[1][name], rtol=0, atol=1e-6)


def test_options_of_the_release_are_those_of_the_training(tiny_chat_model, pairs, tmp_path):
    command = ["--pretrain", tiny_chat_model, "--dataset", str(pairs), "--save_path", str(tmp_path / "out")]
    command += ["--logging_steps", "1", "--ipo", "--beta", "0.1"]
    command += ["--lora_rank", "4", "--target_modules", "q_proj,v_proj", "--lora_dropout", "0.1"]
    command += ["--adam_betas", "0.9,0.95", "--train_batch_size", "40", "--max_epochs", "2"]
    main = runpy.run_path(str(SCRIPTS / "train_dpo.py"))["main"]
    main(**parse(main, command))
    assert log_of(tmp_path / "out")[0]["loss"] == pytest.approx(1 / (4 * 0.1**2))
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]
    assert (settings["learning_rate"], settings["adam_betas"], settings["ipo"]) == (5e-6, [0.9, 0.95], True)
    adapter = json.loads((tmp_path / "out" / "adapter" / "adapter_config.json").read_text())
    assert set(adapter["target_modules"]) == {"q_proj", "v_proj"} and adapter["lora_dropout"] == 0.1


def test_with_bitsandbytes_a_model_learns_from_four_bit_weights(pairs, tmp_path):
    pytest.importorskip("bitsandbytes", reason="needs: pip install bitsandbytes")
    model = save_tiny_chat_model(tmp_path / "model", hidden_size=64, intermediate_size=128)  # blocks of 64
    train(
        pretrain=model, dataset=str(pairs), save_path=str(tmp_path / "out"), learning_rate=1e-2, max_epochs=2,
        train_batch_size=8, logging_steps=1, lora_rank=4, load_in_4bit=True, lora_dropout=0.1,
        target_modules=("q_proj", "up_proj"),
    )  # fmt: skip
    lines = log_of(tmp_path / "out")
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-4), "the reference has the same weights"
    assert lines[-1]["loss"] < 0.9 * lines[0]["loss"]
    merged, base = (AutoModelForCausalLM.from_pretrained(path).state_dict() for path in (tmp_path / "out", model))
    changed = {name.split(".")[-2] for name in base if not torch.equal(base[name], merged[name])}
    assert changed == {"q_proj", "up_proj"}
