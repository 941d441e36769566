"""The Trainer's arguments from settings, and what is refused before a model is loaded."""

from __future__ import annotations

import pytest
import torch
from transformers import get_scheduler

from sweet_rl.runs.errors import UserError
from sweet_rl.training.arguments import ACTIVATION_CHECKPOINTING, divided_batch, training_arguments, weights_dtype
from sweet_rl.training.settings import TrainingSettings


def test_a_batch_is_divided_among_processes_and_micro_batches(tmp_path, monkeypatch):
    args = training_arguments(TrainingSettings(train_batch_size=12, micro_train_batch_size=3), tmp_path)
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (3, 4)
    args = training_arguments(TrainingSettings(train_batch_size=12), tmp_path)
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (12, 1)
    with pytest.raises(UserError, match="multiple"):
        training_arguments(TrainingSettings(train_batch_size=12, micro_train_batch_size=5), tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(UserError, match="times 8 process"):
        training_arguments(TrainingSettings(train_batch_size=12), tmp_path)


def test_the_settings_reach_the_trainer(tmp_path):
    settings = TrainingSettings(
        learning_rate=3e-4, max_epochs=7, lr_scheduler="linear", warmup_ratio=0.25, weight_decay=0.125, max_norm=0.5,
        logging_steps=11, seed=13, gradient_checkpointing=True, keep="best",
        adam_betas=(0.8, 0.99),
    )  # fmt: skip
    args = training_arguments(settings, tmp_path, evaluate=True)
    found = (
        args.learning_rate, args.num_train_epochs, args.lr_scheduler_type, args.warmup_steps, args.weight_decay,
        args.max_grad_norm, args.logging_steps, args.seed, args.data_seed, args.adam_beta1, args.adam_beta2,
    )  # fmt: skip
    assert found == (3e-4, 7, "linear", 0.25, 0.125, 0.5, 11, 13, 13, 0.8, 0.99)
    assert getattr(args, ACTIVATION_CHECKPOINTING) and args.load_best_model_at_end and args.greater_is_better is False
    assert args.metric_for_best_model == "eval_loss" and args.eval_strategy == "steps"
    assert args.output_dir == str(tmp_path / "checkpoints") and args.report_to == []
    plain = training_arguments(TrainingSettings(), tmp_path)
    assert plain.eval_strategy == "no" and not plain.load_best_model_at_end


@pytest.mark.parametrize("ratio, expected", [(0.1, [0.5, 1, 0.55, 0.1]), (0.0, [0.5, 1, 0.5, 0])])
def test_the_cosine_ends_at_the_ratio_of_the_peak(tmp_path, ratio, expected):
    settings = TrainingSettings(warmup_ratio=0.2, learning_rate=1.0, min_learning_rate_ratio=ratio)
    args = training_arguments(settings, tmp_path)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate)
    schedule = get_scheduler(
        args.lr_scheduler_type, optimizer, args.get_warmup_steps(10), 10, args.lr_scheduler_kwargs
    )  # 2 steps of warm-up, 8 of the cosine
    rates = []
    for _ in range(11):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert [rates[step] for step in (1, 2, 6, 10)] == pytest.approx(expected)


@pytest.mark.parametrize("micro, processes, expected", [
    (None, 1, (8, 1)), (None, 4, (2, 1)), (4, 1, (4, 2)), (4, 2, (4, 1)), (4, 4, (2, 1)), (4, 8, (1, 1)),
])  # fmt: skip
def test_a_micro_batch_is_at_most_the_share_of_its_process(micro, processes, expected):
    settings = TrainingSettings(train_batch_size=8, micro_train_batch_size=micro)
    assert divided_batch(settings, processes) == expected


@pytest.mark.filterwarnings("error")
def test_activation_checkpointing_has_its_name_in_this_version_of_transformers(tmp_path):
    args = training_arguments(TrainingSettings(gradient_checkpointing=True), tmp_path)
    assert getattr(args, ACTIVATION_CHECKPOINTING)


@pytest.mark.parametrize("changes, message", [
    ({"keep": "best"}, "--eval_fraction"), ({"report_to": "pigeon"}, "--report_to pigeon"),
    ({"lr_scheduler": "zigzag"}, "zigzag"),
])  # fmt: skip
def test_what_the_trainer_cannot_do_is_refused(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        training_arguments(TrainingSettings(**changes), tmp_path)


@pytest.mark.parametrize("module, settings, message", [
    ("peft", {"lora_rank": 4}, "pip install peft"),
    ("bitsandbytes", {"lora_rank": 4, "load_in_4bit": True}, "--load_in_4bit needs bitsandbytes"),
    ("bitsandbytes", {"optim": "adamw_8bit"}, "--optim adamw_8bit needs bitsandbytes"),
    ("deepspeed", {"zero_stage": 2}, "pip install deepspeed"),
])  # fmt: skip
def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch, module, settings, message):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(UserError, match=message):
        training_arguments(TrainingSettings(**settings), tmp_path)


@pytest.mark.parametrize("settings, dtype", [
    ({}, torch.float32), ({"bf16": True}, torch.float32), ({"zero_stage": 0}, torch.float32),
    ({"bf16": True, "zero_stage": 0}, torch.bfloat16), ({"bf16": True, "lora_rank": 1}, torch.bfloat16),
])  # fmt: skip
def test_weights_are_bfloat16_only_beside_what_keeps_float32(settings, dtype):
    assert weights_dtype(TrainingSettings(**settings)) == dtype
