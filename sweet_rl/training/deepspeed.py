"""DeepSpeed's configuration, and models that it must not split up."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from sweet_rl.errors import UserError
from sweet_rl.training.settings import TrainingSettings

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "deepspeed"


def deepspeed_config(settings: TrainingSettings, accumulates: bool = False) -> dict[str, Any] | None:
    """The configuration of the ZeRO stage, None without one.

    Args:
        settings: of the training.
        accumulates: whether the gradients of several micro-batches are added up. ZeRO-2 and ZeRO-3 then keep their sum
            in float32; in bfloat16 each sum would be rounded.

    Raises:
        UserError: DeepSpeed is not installed, or settings that exclude each other.
    """
    if settings.zero_stage is None:
        return None
    try:
        import deepspeed  # noqa: F401
    except ImportError as error:
        raise UserError(
            "--zero_stage needs DeepSpeed: pip install deepspeed. Without --zero_stage plain torch trains."
        ) from error
    path = CONFIGS / f"zero{settings.zero_stage}.json"
    if not path.is_file():
        raise UserError(f"the DeepSpeed configuration {path} does not exist.")
    config = json.loads(path.read_text())
    if accumulates and settings.bf16 and settings.zero_stage >= 2:
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    if settings.adam_offload:
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return config


def start_deepspeed() -> None:
    """Join the other processes: ZeRO-3 splits weights while they load, before the Trainer starts DeepSpeed."""
    from deepspeed import init_distributed

    # DeepSpeed 0.19 calls collectives by names that torch 2.13 warns of, hundreds of times.
    warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)
    init_distributed()


@contextlib.contextmanager
def whole_weights(args: TrainingArguments) -> Iterator[None]:
    """Models loaded inside are whole in the process that loads them; ZeRO-3 would split them up among all."""
    if args.deepspeed is None:
        yield
        return
    from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

    unset_hf_deepspeed_config()
    try:
        yield
    finally:
        set_hf_deepspeed_config(args.hf_deepspeed_config)
