"""A reference model that the processes of a training hold together: each keeps a part of the weights (ZeRO-3)."""

from __future__ import annotations

import torch

from sweet_rl.models.weights import freeze, load_weights


def load_divided(path: str, dtype: torch.dtype, device: torch.device) -> torch.nn.Module:
    """The frozen model at `path` in a DeepSpeed engine, for log-probs. All processes must call it, and it, in step.

    While the ZeRO-3 configuration of a training is active, transformers divides the weights as it loads them, so that
    no process ever holds them all.

    Raises:
        UserError: no model can be loaded from there.
    """
    import deepspeed

    model = freeze(load_weights(path, dtype), device)
    config = {
        "train_micro_batch_size_per_gpu": 1,  # required, and without effect on a forward pass
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": dtype == torch.bfloat16},
        "steps_per_print": 10**9,
    }
    engine, *_ = deepspeed.initialize(model=model, config=config)
    engine.eval()
    return engine
