"""DeepSpeed's configuration and a script without a launcher. DeepSpeed itself is not started."""

from __future__ import annotations

import os

import pytest

from sweet_rl.training.deepspeed import deepspeed_config, name_lone_process
from sweet_rl.training.settings import TrainingSettings


def test_the_optimisers_state_is_offloaded_if_asked_for():
    pytest.importorskip("deepspeed")
    config = deepspeed_config(TrainingSettings(zero_stage=3))
    assert config["zero_optimization"]["stage"] == 3 and "offload_optimizer" not in config["zero_optimization"]
    config = deepspeed_config(TrainingSettings(zero_stage=2, adam_offload=True))
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"


def test_a_script_without_a_launcher_is_the_only_process(monkeypatch):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    with monkeypatch.context() as patch:
        for name in names:
            patch.delenv(name, raising=False)
        name_lone_process()
        found = [os.environ.pop(name) for name in names]
    assert found[:4] == ["0", "0", "1", "127.0.0.1"] and int(found[4]) > 1023
    monkeypatch.setenv("RANK", "3")
    name_lone_process()
    assert "MASTER_PORT" not in os.environ


@pytest.mark.parametrize("stage, bf16, accumulated, expected", [
    (3, True, 2, "fp32"), (2, True, 2, "fp32"), (1, True, 2, None), (3, True, 1, None),
    (3, False, 2, None),
])  # fmt: skip
def test_sums_of_bfloat16_gradients_are_float32_where_gradients_are_added_up(stage, bf16, accumulated, expected):
    pytest.importorskip("deepspeed")
    config = deepspeed_config(TrainingSettings(zero_stage=stage, bf16=bf16), accumulated=accumulated)
    assert config.get("data_types", {}).get("grad_accum_dtype") == expected


def test_the_configuration_says_what_the_settings_say():
    pytest.importorskip("deepspeed")
    config = deepspeed_config(TrainingSettings(zero_stage=3, bf16=True, max_norm=0.5), micro=2, accumulated=4)
    assert config["bf16"] == {"enabled": True} and config["gradient_clipping"] == 0.5
    assert (config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]) == (2, 4)
