"""LoRA: a small trained adapter beside frozen weights, and the whole model made of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sweet_rl.models.log_probs.value_head import HEAD, attach_value_head
from sweet_rl.models.weights import load_weights, save_weights
from sweet_rl.runs.errors import UserError

FOLDER = "adapter"


def with_adapter(
    model: torch.nn.Module,
    rank: int,
    alpha: float | None = None,
    seed: int = 0,
    target_modules: Sequence[str] = ("all-linear",),
    dropout: float = 0.0,
    autocast: bool = False,
) -> torch.nn.Module:
    """The model, frozen, with a new adapter on its linear layers, as peft makes it. A value head is trained whole.

    With the adapter switched off the model is the one it was: the reference. `autocast` says that the model will run
    under autocast: then peft need not cast the adapter's inputs to float32, from which autocast would cast them back;
    without dropout the numbers are the same. Other arguments are those of `TrainingSettings`.
    """
    from peft import LoraConfig, get_peft_model
    from peft.tuners.tuners_utils import BaseTunerLayer

    torch.manual_seed(seed)
    heads = [HEAD] if hasattr(model, HEAD) else None
    scale: Any = 2 * rank if alpha is None else alpha  # peft takes a float too, though its type says int
    config = LoraConfig(
        r=rank,
        lora_alpha=scale,
        target_modules="all-linear" if "all-linear" in target_modules else list(target_modules),
        lora_dropout=dropout,
        exclude_modules=heads,
        modules_to_save=heads,
        task_type="CAUSAL_LM",
    )
    whole: Any = model
    shared = whole.get_input_embeddings().weight if whole.config.get_text_config().tie_word_embeddings else None
    adapted: Any = get_peft_model(whole, config)
    for module in adapted.modules():
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            if layer.get_base_layer().weight is shared:
                raise UserError(
                    "--target_modules names the embeddings or the head, which are one matrix in this model: a merged "
                    "model would change both. Name other layers, or leave the flag out."
                )
            layer.cast_input_dtype_enabled = not autocast
    return adapted


def merge_adapter(base: str, adapter: str | Path, save_path: str | Path, dtype: torch.dtype = torch.float32) -> None:
    """Write the model at `base` with the adapter added to its weights to `save_path`, an ordinary model folder.

    The sum is made in float32 and then rounded to `dtype`, but for a value head.
    """
    from peft import PeftModel
    from safetensors import safe_open

    model = load_weights(base)
    with safe_open(Path(adapter) / "adapter_model.safetensors", "pt") as weights:
        if any(HEAD in name for name in weights.keys()):  # noqa: SIM118
            attach_value_head(model)
    merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    round_weights(merged, dtype)
    save_weights(merged, save_path)


def round_weights(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """Cast the weights to `dtype`, but not those of a value head."""
    for name, weight in [*model.named_parameters(), *model.named_buffers()]:
        if weight.is_floating_point() and HEAD not in name.split("."):
            weight.data = weight.data.to(dtype)
