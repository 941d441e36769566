"""FSDP2: the processes divide weights, gradients and optimiser among themselves; torch does it, layer by layer.

The model is divided by torch's `fully_shard` itself and not by accelerate's plugin, because the reference model is
divided too, and the plugin takes no model without an optimiser.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from sweet_rl.training.engine import Engine, name_lone_process
from sweet_rl.training.optimizer import make_optimizer


class Fsdp2(Engine):
    """Every process keeps a part of each weight. A layer is gathered when it runs, in bfloat16 if asked for."""

    divided = True

    def make_accelerator(self) -> Accelerator:
        # No in-place operation changes the views that a model returns here, its log-probs.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
        name_lone_process()
        accelerator = super().make_accelerator()
        if not torch.distributed.is_initialized():  # accelerate makes no group for one process on a CPU
            torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        return accelerator

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        self.model = self.shard(model)
        self.optimizer = make_optimizer(model, self.settings)
        return self.model

    def shard(self, model: Any) -> torch.nn.Module:
        """Divide the weights of each layer, and then those outside of layers."""
        reduced = torch.bfloat16 if self.settings.bf16 else None
        precision = MixedPrecisionPolicy(param_dtype=reduced, reduce_dtype=torch.float32)
        layers = set(model._no_split_modules or ())
        for module in model.modules():
            if type(module).__name__ in layers:
                fully_shard(module, mp_policy=precision)
        fully_shard(model, mp_policy=precision)
        return model.to(self.device)

    def micro_batch(self, last: bool) -> AbstractContextManager:
        """Nothing: the parts of the gradients are added up after each micro-batch, so that none are held whole."""
        return contextlib.nullcontext()

    def clip(self) -> torch.Tensor:
        norm = super().clip()
        self._norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        return self._norm

    @torch.no_grad()
    def whole_state(self) -> dict[str, torch.Tensor] | None:
        self.model.reshard()
        whole: dict[int, torch.Tensor] = {}  # tied weights have several names
        state = {}
        for name, weight in self.model.state_dict(keep_vars=True).items():
            if id(weight) not in whole:
                full = weight.full_tensor() if isinstance(weight, DTensor) else weight
                whole[id(weight)] = full.cpu() if self.accelerator.is_main_process else full.new_empty(0)
            state[name] = whole[id(weight)]
        return state

    def _state(self) -> dict[str, Any]:
        self.model.reshard()  # after an evaluation the weights outside of layers are still whole
        return super()._state()

    def load_frozen(self, load: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        return self.shard(load().eval().requires_grad_(False))
