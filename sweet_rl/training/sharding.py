"""Which engine holds weights, gradients and optimiser of a training: plain torch, DeepSpeed ZeRO or FSDP2."""

from __future__ import annotations

from sweet_rl.training.deepspeed import Zero
from sweet_rl.training.engine import Engine
from sweet_rl.training.fsdp2 import Fsdp2
from sweet_rl.training.settings import TrainingSettings


def make_engine(settings: TrainingSettings) -> Engine:
    """The engine that the settings ask for. Raises UserError if its package is not installed."""
    if settings.zero_stage is not None:
        return Zero(settings)
    return Fsdp2(settings) if settings.sharding == "fsdp2" else Engine(settings)
