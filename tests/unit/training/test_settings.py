"""Settings that mean nothing are refused with the name of their flag."""

from __future__ import annotations

import pytest

from sweet_rl.runs.cli import build, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.training.reference_pages import PictureSettings
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings, ValueSettings


@pytest.mark.parametrize("normalize, mean_log_prob, expected", [
    ("auto", False, "none"), ("auto", True, "trajectory"), ("turn", False, "turn"),
    ("trajectory", True, "trajectory"), ("none", False, "none"),
])  # fmt: skip
def test_the_released_flag_means_one_mean_over_the_dialogue(normalize, mean_log_prob, expected):
    assert PreferenceSettings(normalize=normalize, mean_log_prob=mean_log_prob).normalization == expected


def test_one_normalisation_is_given_and_minus_one_means_no_steps():
    with pytest.raises(UserError, match="Give one"):
        PreferenceSettings(normalize="turn", mean_log_prob=True)
    assert TrainingSettings(save_steps=-1).save_steps is None


@pytest.mark.parametrize("group, field, values", [
    (PreferenceSettings, "beta", (0.0, -1.0)),
    (PreferenceSettings, "nll_loss_coef", (-0.1,)),
    (PreferenceSettings, "label_smoothing", (-0.1, 0.5)),
    (ValueSettings, "beta", (0.0,)),
    (PictureSettings, "min_gap", (0.0,)),
    (PictureSettings, "max_pixels", (28 * 28 - 1,)),
    (DataSettings, "max_len", (1,)),
    (TrainingSettings, "learning_rate", (0.0, -1.0)),
    (TrainingSettings, "max_epochs", (0,)),
    (TrainingSettings, "max_steps", (0,)),
    (TrainingSettings, "train_batch_size", (0,)),
    (TrainingSettings, "micro_train_batch_size", (0,)),
    (TrainingSettings, "max_pairs_per_prompt", (0,)),
    (TrainingSettings, "logging_steps", (0,)),
    (TrainingSettings, "lora_rank", (0,)),
    (TrainingSettings, "lora_alpha", (0.0,)),
    (TrainingSettings, "lora_dropout", (1.0, -0.1)),
    (TrainingSettings, "target_modules", ((),)),
    (TrainingSettings, "load_in_4bit", (True,)),
    (TrainingSettings, "adam_betas", ((0.9,), (0.9, 0.95, 0.99), (1.0, 0.9), (0.9, -0.1))),
    (TrainingSettings, "min_learning_rate_ratio", (-0.1, 1.1)),
    (TrainingSettings, "warmup_ratio", (1.0, -0.1)),
    (TrainingSettings, "weight_decay", (-1.0,)),
    (TrainingSettings, "max_norm", (-1.0,)),
    (TrainingSettings, "zero_stage", (4, -1)),
    (TrainingSettings, "save_steps", (0, -2)),
    (TrainingSettings, "save_minutes", (0.0, -1.0)),
])  # fmt: skip
def test_a_value_that_means_nothing_is_refused_by_the_name_of_its_flag(group, field, values):
    for value in values:
        with pytest.raises(UserError, match=rf"'{field}' in a config is|--{field}"):
            build(group, {field: value}, "a config")


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


def test_what_changes_the_pace_only_is_not_recorded():
    recorded = to_settings(TrainingSettings(seed=3))
    assert recorded["seed"] == 3 and {"learning_rate", "max_pairs_per_prompt", "zero_stage"} <= recorded.keys()
    memory = {"micro_train_batch_size", "gradient_checkpointing", "adam_offload"}
    assert not memory & recorded.keys()
    assert not {"save_steps", "save_minutes", "logging_steps", "report_to", "attention"} & recorded.keys()
    assert to_settings(PictureSettings()).keys() == {
        "reference_picture", "min_gap", "max_pixels", "page_width", "page_height",
    }  # fmt: skip
