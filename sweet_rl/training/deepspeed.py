"""DeepSpeed ZeRO: the processes divide weights, gradients and optimiser among themselves."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DeepSpeedPlugin, get_int_from_env
from torch import Tensor

from sweet_rl.runs.cli import packaged_config
from sweet_rl.training.batches import divided_batch
from sweet_rl.training.engine import TIMEOUT, Engine
from sweet_rl.training.optimizer import make_optimizer
from sweet_rl.training.settings import TrainingSettings

CONFIGS = packaged_config("deepspeed")


class Zero(Engine):
    """A DeepSpeed engine around the model. Weights are bfloat16 if asked for, and the engine keeps a float32 copy."""

    def __init__(self, settings: TrainingSettings):
        super().__init__(settings)
        self.dtype = torch.bfloat16 if settings.bf16 else torch.float32
        self.plugin = self.accelerator.state.deepspeed_plugin

    def make_accelerator(self) -> Accelerator:
        from deepspeed import init_distributed

        micro, accumulated = divided_batch(self.settings, get_int_from_env(("WORLD_SIZE",), 1))
        config = deepspeed_config(self.settings, micro, accumulated)
        name_lone_process()
        # Given to Accelerator, `cpu` would switch DeepSpeed off.
        PartialState(cpu=not torch.cuda.is_available(), timeout=TIMEOUT)
        plugin = DeepSpeedPlugin(hf_ds_config=config)
        accelerator = Accelerator(
            mixed_precision="no", deepspeed_plugin=plugin, gradient_accumulation_steps=accumulated
        )
        init_distributed()  # ZeRO-3 splits weights while they load
        return accelerator

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
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
        return torch.where(norm < 0, torch.nan, norm)  # DeepSpeed gives -1 for NaN and infinity

    def save(self, folder: Path) -> None:
        self.model.save_checkpoint(str(folder), exclude_frozen_parameters=bool(self.settings.lora_rank))

    def load(self, folder: Path) -> None:
        path, _ = self.model.load_checkpoint(str(folder), load_module_strict=not self.settings.lora_rank)
        if path is None:
            raise FileNotFoundError(f"{folder}: DeepSpeed finds no checkpoint in it")

    def whole_state(self) -> dict[str, Tensor] | None:
        return self.accelerator.get_state_dict(self.model)

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
    """The configuration of the ZeRO stage; the gradients of `accumulated` micro-batches of `micro` examples add up."""
    config = json.loads((CONFIGS / f"zero{settings.zero_stage}.json").read_text()) | {
        "bf16": {"enabled": settings.bf16},
        "gradient_clipping": settings.max_norm,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulated,
    }
    # In bfloat16 each sum of gradients would be rounded.
    if accumulated > 1 and settings.bf16 and (settings.zero_stage or 0) >= 2:
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    if settings.adam_offload:
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return config


def name_lone_process() -> None:
    """Set the variables of a launcher for a script that was started without one."""
    if not any(name in os.environ for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        os.environ["MASTER_PORT"] = port
