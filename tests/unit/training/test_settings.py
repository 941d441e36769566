"""Settings that mean nothing are refused with the name of their flag."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from scripts.train_dpo import main as train_dpo
from sweet_rl.runs.cli import parse_flags, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.released import TRAIN_DPO
from sweet_rl.training.reference_pages import PictureSettings
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings, ValueSettings


@pytest.mark.parametrize("normalize, mean_log_prob, expected", [
    ("auto", False, "none"), ("auto", True, "trajectory"), ("turn", False, "turn"),
    ("trajectory", True, "trajectory"), ("none", False, "none"),
])  # fmt: skip
def test_the_released_flag_means_one_mean_over_the_dialogue(normalize, mean_log_prob, expected):
    assert PreferenceSettings(normalize=normalize, mean_log_prob=mean_log_prob).normalization == expected


def test_flags_that_contradict_each_other_are_refused():
    with pytest.raises(UserError, match="Give one"):
        PreferenceSettings(normalize="turn", mean_log_prob=True)
    with pytest.raises(UserError, match="Give one"):
        PreferenceSettings(ipo=True, label_smoothing=0.1)


@pytest.mark.parametrize("group, field, values", [
    (PreferenceSettings, "beta", (0.0, -1.0)),
    (PreferenceSettings, "nll_loss_coef", (-0.1,)),
    (PreferenceSettings, "normalize", ("word",)),
    (PreferenceSettings, "label_smoothing", (-0.1, 0.5)),
    (ValueSettings, "objective", ("other",)),
    (ValueSettings, "unit", ("word",)),
    (ValueSettings, "beta", (0.0,)),
    (PictureSettings, "min_gap", (0.0,)),
    (PictureSettings, "max_pixels", (28 * 28 - 1,)),
    (DataSettings, "eval_fraction", (1.0, -0.1)),
    (DataSettings, "max_len", (1,)),
    (TrainingSettings, "learning_rate", (0.0, -1.0)),
    (TrainingSettings, "max_epochs", (0,)),
    (TrainingSettings, "max_steps", (0,)),
    (TrainingSettings, "train_batch_size", (0,)),
    (TrainingSettings, "micro_train_batch_size", (0,)),
    (TrainingSettings, "max_pairs_per_prompt", (0,)),
    (TrainingSettings, "save_steps", (0,)),
    (TrainingSettings, "logging_steps", (0,)),
    (TrainingSettings, "lora_rank", (0,)),
    (TrainingSettings, "lora_alpha", (2.0,)),
    (TrainingSettings, "lora_dropout", (1.0, -0.1, 0.5)),
    (TrainingSettings, "target_modules", ((), ("q_proj",))),
    (TrainingSettings, "load_in_4bit", (True,)),
    (TrainingSettings, "adam_betas", ((0.9,), (0.9, 0.95, 0.99), (1.0, 0.9), (0.9, -0.1))),
    (TrainingSettings, "min_learning_rate_ratio", (-0.1, 1.1)),
    (TrainingSettings, "keep", ("first",)),
    (TrainingSettings, "warmup_ratio", (1.0, -0.1)),
    (TrainingSettings, "weight_decay", (-1.0,)),
    (TrainingSettings, "max_norm", (-1.0,)),
    (TrainingSettings, "zero_stage", (4, -1)),
    (TrainingSettings, "save_steps", (0, -2)),
    (TrainingSettings, "save_minutes", (0.0, -1.0)),
])  # fmt: skip
def test_a_value_that_means_nothing_is_refused_by_the_name_of_its_flag(group, field, values):
    for value in values:
        with pytest.raises(UserError, match=f"--{field}"):
            group(**{field: value})


def test_the_least_and_the_most_that_make_sense_are_taken():
    PreferenceSettings(beta=1e-9, nll_loss_coef=0.0)
    PictureSettings(min_gap=1e-9, max_pixels=28 * 28)
    DataSettings(eval_fraction=0.999, max_len=2)
    TrainingSettings(
        learning_rate=1e-12, max_epochs=1, train_batch_size=1, micro_train_batch_size=1, max_pairs_per_prompt=1,
        warmup_ratio=0.0, weight_decay=0.0, max_norm=0.0, zero_stage=0, lora_rank=1, lora_alpha=0.5, save_steps=1,
        logging_steps=1,
    )  # fmt: skip
    assert [TrainingSettings(zero_stage=stage).zero_stage for stage in range(4)] == [0, 1, 2, 3]
    with pytest.raises(UserError, match="--lora_alpha"):
        TrainingSettings(lora_rank=1, lora_alpha=0.0)
    assert TrainingSettings(save_steps=-1).save_steps is None


def test_an_adapter_has_a_learning_rate_of_its_own_unless_one_is_given():
    assert TrainingSettings().peak_learning_rate == 2e-7
    assert TrainingSettings(lora_rank=4).peak_learning_rate == 5e-6
    assert TrainingSettings(lora_rank=4, learning_rate=2e-7).peak_learning_rate == 2e-7


@pytest.mark.parametrize(("settings", "named"), [
    ({"lora_rank": 4, "load_in_4bit": True, "zero_stage": 2}, "--load_in_4bit"),
    ({"adam_offload": True}, "--adam_offload is done by DeepSpeed ZeRO"),
    ({"adam_offload": True, "zero_stage": 0}, "--adam_offload is done by DeepSpeed ZeRO"),
])  # fmt: skip
def test_what_cannot_be_divided_is_refused(settings, named):
    TrainingSettings(lora_rank=4, load_in_4bit=True)
    with pytest.raises(UserError, match=named):
        TrainingSettings(**settings)


def test_autocast_is_for_a_model_that_is_not_divided():
    assert TrainingSettings(bf16=True).autocast and not TrainingSettings().autocast
    assert not TrainingSettings(bf16=True, zero_stage=0).autocast


def test_what_changes_the_pace_only_is_not_recorded():
    recorded = to_settings(TrainingSettings(seed=3))
    assert recorded["seed"] == 3 and {"learning_rate", "max_pairs_per_prompt", "zero_stage", "keep"} <= recorded.keys()
    memory = {"micro_train_batch_size", "gradient_checkpointing", "adam_offload"}
    assert not memory & recorded.keys()
    assert not {"save_steps", "save_minutes", "logging_steps", "report_to", "attention"} & recorded.keys()
    assert to_settings(PictureSettings()).keys() == {
        "reference_picture", "min_gap", "max_pixels", "page_width", "page_height",
    }  # fmt: skip


def test_the_defaults_are_those_that_are_documented():
    assert asdict(PreferenceSettings()) == {
        "beta": 0.1, "nll_loss_coef": 0.0, "normalize": "auto", "mean_log_prob": False,
        "label_smoothing": 0.0, "ipo": False, "kl_coef": 0.0,
    }  # fmt: skip
    assert asdict(ValueSettings()) == {"objective": "preference", "unit": "turn", "beta": 1.0}
    assert asdict(PictureSettings()) == {
        "reference_picture": False, "min_gap": 0.1, "max_pixels": None, "pages_path": None, "browser": None,
        "browser_workers": 2, "page_width": 1280, "page_height": 720, "page_timeout": 15.0,
    }  # fmt: skip
    assert asdict(DataSettings()) == {
        "response_template": None, "max_len": None, "max_samples": None, "eval_fraction": 0.0,
    }  # fmt: skip
    assert asdict(TrainingSettings()) == {
        "learning_rate": None, "min_learning_rate_ratio": 0.1, "adam_betas": (0.9, 0.95),
        "max_epochs": None, "max_steps": None, "train_batch_size": 8, "micro_train_batch_size": None,
        "max_pairs_per_prompt": 4, "lr_scheduler": "cosine", "warmup_ratio": 0.03, "weight_decay": 0.0, "max_norm": 1.0,
        "bf16": False, "gradient_checkpointing": False, "zero_stage": None, "adam_offload": False,
        "lora_rank": None, "lora_alpha": None, "lora_dropout": 0.0,
        "target_modules": ("all-linear",), "load_in_4bit": False, "save_steps": None, "save_minutes": 10.0,
        "attention": None,
        "keep": "last", "logging_steps": 10, "report_to": "none", "seed": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("flag", "value", "remedy"), [
    ("sharding", "fsdp2", "--zero_stage"), ("optim", "adamw_8bit", "--adam_offload"),
    ("too_long", "oldest_turns", "--max_len"), ("save_epochs", "false", "--save_minutes"),
])  # fmt: skip
def test_a_flag_that_is_gone_is_refused_with_what_to_do_instead(flag, value, remedy, tmp_path):
    given = ["--pretrain", "m", "--dataset", "d", "--save_path", "s"]
    with pytest.raises(UserError, match=f"--{flag} is gone: .*{remedy}"):
        parse_flags(train_dpo, [*given, f"--{flag}", value], TRAIN_DPO)
    config = tmp_path / "old.yaml"
    config.write_text(f"{flag}: {value}\n")
    with pytest.raises(UserError, match=f"'{flag}' in .*old.yaml is gone: .*{remedy}"):
        parse_flags(train_dpo, [*given, "--config", str(config)], TRAIN_DPO)
