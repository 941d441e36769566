"""DeepSpeed's configuration from the settings."""

from __future__ import annotations

import pytest

from sweet_rl.training.deepspeed import deepspeed_config
from sweet_rl.training.settings import TrainingSettings

pytest.importorskip("deepspeed")


@pytest.mark.parametrize("stage, bf16, accumulates, expected", [
    (3, True, True, "fp32"), (2, True, True, "fp32"), (1, True, True, None), (3, True, False, None),
    (3, False, True, None),
])  # fmt: skip
def test_sums_of_bfloat16_gradients_are_float32_where_gradients_are_added_up(stage, bf16, accumulates, expected):
    config = deepspeed_config(TrainingSettings(zero_stage=stage, bf16=bf16), accumulates)
    assert config["zero_optimization"]["stage"] == stage
    assert config.get("data_types", {}).get("grad_accum_dtype") == expected
