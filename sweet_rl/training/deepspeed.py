"""DeepSpeed ZeRO: its configuration, its steps, and its checkpoints, which any number of processes can continue."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DeepSpeedPlugin, get_int_from_env
from torch import Tensor

from sweet_rl.models.weights import freeze
from sweet_rl.runs.cli.configs import packaged_config
from sweet_rl.runs.errors import UserError
from sweet_rl.training.batches import divided_batch
from sweet_rl.training.engine import TIMEOUT, Engine, name_lone_process
from sweet_rl.training.finite import check_figures
from sweet_rl.training.optimizer import make_optimizer
from sweet_rl.training.settings import TrainingSettings

CONFIGS = packaged_config("deepspeed")


class Zero(Engine):
    """A DeepSpeed engine around the model. Weights are bfloat16 if asked for, and the engine keeps a float32 copy."""

    def __init__(self, settings: TrainingSettings):
        super().__init__(settings)
        self.divided = settings.zero_stage == 3
        self.dtype = torch.bfloat16 if settings.bf16 else torch.float32
        self.plugin = self.accelerator.state.deepspeed_plugin

    def make_accelerator(self) -> Accelerator:
        micro, accumulated = divided_batch(self.settings, get_int_from_env(("WORLD_SIZE",), 1))
        config = deepspeed_config(self.settings, micro, accumulated)
        name_lone_process()
        # Given to Accelerator, `cpu` would switch DeepSpeed off.
        PartialState(cpu=not torch.cuda.is_available(), timeout=TIMEOUT)
        plugin = DeepSpeedPlugin(hf_ds_config=config)
        accelerator = Accelerator(
            mixed_precision="no", deepspeed_plugin=plugin, gradient_accumulation_steps=accumulated
        )
        from deepspeed import init_distributed

        init_distributed()  # ZeRO-3 splits weights while they load
        return accelerator

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        fill_sizes(self.plugin.deepspeed_config, model)
        self.model, self.optimizer = self.accelerator.prepare(model, make_optimizer(model, self.settings))
        return self.model

    def on_device(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch on the device; inputs of the model get the dtype of its weights."""
        batch = super().on_device(batch)
        inputs = batch.get("model_inputs", {}).items()
        cast = {name: value.to(self.dtype) if value.is_floating_point() else value for name, value in inputs}
        return batch | {"model_inputs": cast} if cast else batch

    def micro_batch(self, last: bool) -> AbstractContextManager:
        self.model.set_gradient_accumulation_boundary(last)
        return contextlib.nullcontext()

    def backward(self, loss: Tensor) -> None:
        self.model.backward(loss, scale_wrt_gas=False)

    def clip(self) -> Tensor:
        """Zero: the norm is not known before `step`, in which DeepSpeed clips."""
        return self._norm

    def step(self, learning_rate: float) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.model.step()
        norm = torch.as_tensor(self.model.get_global_grad_norm() or 0.0)
        norm = torch.where(norm < 0, torch.nan, norm)  # DeepSpeed's word for NaN and infinity is -1
        check_figures(self.model.global_steps, {"gradient norm": norm.item()})
        return norm

    def save(self, folder: Path) -> None:
        self.model.save_checkpoint(str(folder), exclude_frozen_parameters=bool(self.settings.lora_rank))

    def load(self, folder: Path) -> None:
        found, _ = self.model.load_checkpoint(str(folder), load_module_strict=not self.settings.lora_rank)
        if found is None:
            raise FileNotFoundError("DeepSpeed finds no checkpoint in it")
        separate_steps(self.optimizer)

    def fit_to_processes(self, checkpoint: Path) -> None:
        """Have the checkpoint read in DeepSpeed's universal form, which the first process adds to it."""
        if self.accelerator.is_main_process:
            make_universal(checkpoint)
        self.accelerator.wait_for_everyone()
        self.plugin.deepspeed_config["checkpoint"] = {"load_universal": True}

    def whole_state(self) -> dict[str, Tensor] | None:
        return self.accelerator.get_state_dict(self.model)

    def load_frozen(self, load: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        """Under ZeRO-3 an engine of its own: transformers divides the weights as it loads them."""
        if not self.divided:
            with self.whole_weights():
                return super().load_frozen(load)
        import deepspeed

        config = {
            "train_micro_batch_size_per_gpu": 1,  # required, and without effect on a forward pass
            "zero_optimization": {"stage": 3},
            "bf16": {"enabled": self.settings.bf16},
            "steps_per_print": 10**9,
        }
        engine, *_ = deepspeed.initialize(model=freeze(load(), self.device), config=config)
        engine.eval()
        return engine

    @contextlib.contextmanager
    def whole_weights(self) -> Iterator[None]:
        """Models loaded inside are whole in the process that loads them; ZeRO-3 would split them up among all."""
        from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

        unset_hf_deepspeed_config()
        try:
            yield
        finally:
            set_hf_deepspeed_config(self.plugin.dschf)


def deepspeed_config(settings: TrainingSettings, micro: int = 1, accumulated: int = 1) -> dict[str, Any]:
    """The configuration of the ZeRO stage.

    Args:
        settings: Settings of the training.
        micro: Number of examples of a micro-batch.
        accumulated: Number of micro-batches whose gradients are added up. If there are several, ZeRO-2 and ZeRO-3 keep
            their sum in float32; in bfloat16 each sum would be rounded.

    Raises:
        UserError: DeepSpeed is not installed.
    """
    try:
        import deepspeed  # noqa: F401
    except ImportError as error:
        raise UserError(
            "--zero_stage needs DeepSpeed: pip install deepspeed. Without --zero_stage plain torch trains."
        ) from error
    config = json.loads((CONFIGS / f"zero{settings.zero_stage}.json").read_text()) | {
        "bf16": {"enabled": settings.bf16},
        "gradient_clipping": settings.max_norm,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulated,
    }
    if accumulated > 1 and settings.bf16 and (settings.zero_stage or 0) >= 2:
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    if settings.adam_offload:
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return config


def fill_sizes(config: dict[str, Any], model: Any) -> None:
    """Fill in what the size of the model decides. accelerate does not know the size of a model for pictures."""
    width = model.config.get_text_config().hidden_size
    sizes = {
        "reduce_bucket_size": width * width,
        "stage3_prefetch_bucket_size": int(0.9 * width * width),
        "stage3_param_persistence_threshold": 10 * width,
    }
    chosen = config["zero_optimization"]
    chosen |= {name: size for name, size in sizes.items() if chosen.get(name) == "auto"}


def make_universal(checkpoint: Path) -> None:
    """Add DeepSpeed's universal form to a checkpoint: any number of processes can continue it. Takes as much room."""
    from deepspeed.checkpoint.ds_to_universal import main as convert

    tag = (checkpoint / "latest").read_text().strip()
    source, target = checkpoint / tag, checkpoint / f"{tag}_universal"
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


def separate_steps(optimizer: Any) -> None:
    """Give each parameter group of AdamW its own count of steps.

    DeepSpeed 0.19 reads a universal checkpoint of ZeRO-3 with one tensor for all groups, which each of them increments.
    """
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    for values in optimizer.state.values():
        if isinstance(values.get("step"), Tensor):
            values["step"] = values["step"].clone()
