"""DeepSpeed's configuration, and models that it must not split up."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import TrainingArguments
from transformers.trainer_callback import TrainerCallback

from sweet_rl.runs.cli.configs import packaged_config
from sweet_rl.runs.errors import UserError
from sweet_rl.training.settings import TrainingSettings

CONFIGS = packaged_config("deepspeed")


def deepspeed_config(settings: TrainingSettings, accumulates: bool = False) -> dict[str, Any] | None:
    """The configuration of the ZeRO stage, None without one.

    Args:
        settings: Settings of the training.
        accumulates: Whether the gradients of several micro-batches are added up. ZeRO-2 and ZeRO-3 then keep their sum
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


def name_lone_process() -> None:
    """Set what a launcher sets, for a script that was started by none: DeepSpeed would look for MPI."""
    if not any(name in os.environ for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        os.environ["MASTER_PORT"] = port


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


def make_universal(checkpoint: str) -> None:
    """Add DeepSpeed's universal form to a checkpoint: any number of processes can continue it. Takes as much room."""
    from deepspeed.checkpoint.ds_to_universal import main as convert

    tag = (Path(checkpoint) / "latest").read_text().strip()
    source, target = Path(checkpoint) / tag, Path(checkpoint) / f"{tag}_universal"
    shutil.rmtree(target, ignore_errors=True)
    convert(
        argparse.Namespace(
            input_folder=str(source),
            output_folder=str(target),
            num_extract_workers=1,
            num_merge_workers=1,
            keep_temp_folder=False,
            strict=True,
            inject_missing_state=True,
        )
    )


def load_universal(args: TrainingArguments) -> None:
    """Have DeepSpeed read checkpoints in their universal form."""
    args.hf_deepspeed_config.config["checkpoint"] = {"load_universal": True}


class SeparateSteps(TrainerCallback):
    """Gives each parameter group of AdamW its own count of steps.

    DeepSpeed 0.19 reads a universal checkpoint of ZeRO-3 with one tensor for all groups, which each of them increments.
    """

    def on_train_begin(self, args, state, control, optimizer=None, **kwargs):
        while hasattr(optimizer, "optimizer"):
            optimizer = optimizer.optimizer
        for values in optimizer.state.values():
            if isinstance(values.get("step"), Tensor):
                values["step"] = values["step"].clone()
