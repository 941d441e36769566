"""How the processes of a training hold weights, gradients and optimiser. Here: every process holds all of them."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs

from sweet_rl.models.log_probs.logps import on_device
from sweet_rl.models.log_probs.projection import unwrapped
from sweet_rl.training.optimizer import make_optimizer
from sweet_rl.training.settings import TrainingSettings

TIMEOUT = timedelta(minutes=30)  # NCCL's 10 minutes are too few while one process computes more reference log-probs
STATE = "training.pt"


class Engine:
    """Plain torch; processes average their gradients (DDP). `deepspeed.Zero` splits what this copies into each process.

    Attributes:
        dtype: Number format in which weights are loaded. An adapter is float32 beside frozen bfloat16 weights; without
            one the weights themselves are float32, and computed with in bfloat16 by autocast.
        accelerator: The processes and their devices.
        model: The model that `prepare` made ready.
        optimizer: Its optimiser.
    """

    def __init__(self, settings: TrainingSettings):
        self.settings = settings
        self.dtype = torch.bfloat16 if settings.bf16 and settings.lora_rank else torch.float32
        self.accelerator = self.make_accelerator()
        self.device = self.accelerator.device
        self.model: Any = None
        self.optimizer: Any = None
        self._norm = torch.zeros(())

    def make_accelerator(self) -> Accelerator:
        """The processes of this training."""
        parallel = DistributedDataParallelKwargs(find_unused_parameters=False, broadcast_buffers=False)
        how = [parallel, InitProcessGroupKwargs(timeout=TIMEOUT)]
        # "no": the precision is `autocast`'s, whatever a launcher's ACCELERATE_MIXED_PRECISION says.
        return Accelerator(cpu=not torch.cuda.is_available(), mixed_precision="no", kwargs_handlers=how)

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        """Make the model and its optimiser ready, and return the model as it is called from now on."""
        self.model = self.accelerator.prepare_model(model)
        self.optimizer = make_optimizer(model, self.settings)
        return self.model

    def autocast(self) -> AbstractContextManager:
        """The precision in which the model runs."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.autocast)

    def on_device(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch on the device of this process."""
        return on_device(batch, self.device)

    def total(self, count: float) -> torch.Tensor:
        """The sum of a number over the processes."""
        return self.accelerator.reduce(torch.tensor(float(count), device=self.device), reduction="sum")

    def micro_batch(self, last: bool) -> AbstractContextManager:
        """The context of forward and backward; gradients are averaged after the `last` micro-batch of a step."""
        return contextlib.nullcontext() if last else self.accelerator.no_sync(self.model)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a micro-batch."""
        loss.backward()

    def clip(self) -> torch.Tensor:
        """Clip the gradients to `max_norm`, and return their norm before."""
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        self._norm = torch.nn.utils.clip_grad_norm_(weights, self.settings.max_norm or torch.inf)
        return self._norm

    def step(self, learning_rate: float) -> torch.Tensor:
        """Move the weights, forget the gradients, and return the norm that the gradients had before clipping."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        return self._norm

    def save(self, folder: Path) -> None:
        """Write the trained weights and the state of the optimiser. Called by all processes."""
        if self.accelerator.is_main_process:
            trained = {
                name: weight for name, weight in unwrapped(self.model).named_parameters() if weight.requires_grad
            }
            with open(folder / STATE, "wb") as file:
                torch.save({"weights": trained, "optimizer": self.optimizer.state_dict()}, file)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote, in as many processes or in others. Code that a file names is not run."""
        state = torch.load(folder / STATE, map_location="cpu", weights_only=True, mmap=True)
        unwrapped(self.model).load_state_dict(state["weights"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])

    def whole_state(self) -> dict[str, torch.Tensor] | None:
        """The weights of the whole model in the first process; None if the model holds them itself."""
        return None

    def whole_weights(self) -> AbstractContextManager:
        """Models that are loaded inside are whole in the process that loads them."""
        return contextlib.nullcontext()
