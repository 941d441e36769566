"""LoRA: a small trained adapter beside frozen weights, and the whole model made of both."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.log_probs.value_head import HEAD, attach_value_head
from sweet_rl.models.weights import load_weights, save_weights
from sweet_rl.runs.errors import UserError
from sweet_rl.training.first_loss import BF16_DISTANCE

log = logging.getLogger(__name__)
FOLDER = "adapter"
UNADAPTED = 0.1  # share of weights without an adapter that is worth a warning
MERGED_DISTANCE = 1e-3  # mean |log-prob merged - log-prob with adapter| per token, in float32


def require_peft() -> None:
    """Raise UserError if peft is not installed."""
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise UserError("--lora_rank needs peft: pip install peft. Without it all weights are trained.") from error


def with_adapter(
    model: torch.nn.Module,
    rank: int,
    alpha: float | None = None,
    seed: int = 0,
    target_modules: Sequence[str] = ("all-linear",),
    dropout: float = 0.0,
    autocast: bool = False,
) -> torch.nn.Module:
    """The model, frozen, with a new adapter on its linear layers.

    A value head is trained whole. With the adapter switched off the model is the one it was: the reference.

    Args:
        model: Causal language model, with or without a value head.
        rank: Rank of the adapter.
        alpha: Scale of the adapter times its rank; default: twice the rank.
        seed: Random seed of the adapter's first weights.
        target_modules: Names of the layers that get one; all-linear: all but the vocabulary projection, routers and the
            output of Mamba's mixers.
        dropout: Probability that an input of the adapter is dropped in training.
        autocast: Whether the model will run under autocast. Then peft need not cast the adapter's inputs to float32,
            from which autocast would cast them back; without dropout the numbers are the same.

    Raises:
        UserError: the model has no layer of these names, or one of them shares its weights with another layer.
    """
    from peft import LoraConfig, get_peft_model
    from peft.tuners.tuners_utils import BaseTunerLayer

    torch.manual_seed(seed)
    has_head = hasattr(model, HEAD)
    # Routers of experts are linear layers that return more than one tensor (Llama 4, Phi-3.5-MoE).
    routers = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and type(module).__module__.startswith("transformers.models.")
        and type(module).forward is not torch.nn.Linear.forward
        and type(module).__name__ != "FalconLinear"  # computes the same as its base class
    ]
    every = "all-linear" in target_modules
    # Mamba's kernels read the weight of its out_proj themselves, so that an adapter there would be passed by.
    passed_by = [
        f"{name}.out_proj"
        for name, module in model.named_modules()
        if every and all(hasattr(module, own) for own in ("conv1d", "D", "out_proj"))
    ]
    scale: Any = 2 * rank if alpha is None else alpha  # peft takes a float too, though its type says int
    config = LoraConfig(
        r=rank,
        lora_alpha=scale,
        target_modules="all-linear" if every else list(target_modules),
        lora_dropout=dropout,
        exclude_modules=[*routers, *passed_by, *([HEAD] if has_head else [])] or None,
        modules_to_save=[HEAD] if has_head else None,
        task_type="CAUSAL_LM",
    )
    try:
        adapted = get_peft_model(model, config)
    except ValueError as error:  # no layer has such a name
        raise UserError(f"--target_modules {','.join(target_modules)}: {error}") from error
    # Experts are kept in one weight of three dimensions a layer, which is no linear layer.
    experts = sum(weight.numel() for weight in model.parameters() if weight.dim() > 2)
    share = experts / sum(weight.numel() for weight in model.parameters())
    if every and share > UNADAPTED:
        log.warning("%.0f %% of the weights are those of experts, in no linear layer: they get no adapter", 100 * share)
    uses = Counter(id(weight) for _, weight in adapted.named_parameters(remove_duplicate=False))
    for name, layer in adapted.named_modules():
        if not isinstance(layer, BaseTunerLayer):
            continue
        if any(uses[id(weight)] > 1 for weight in layer.get_base_layer().parameters()):
            name = name.removeprefix("base_model.model.")
            raise UserError(
                f"--target_modules {','.join(target_modules)}: {name} shares its weights with another layer (tied "
                "embeddings), and an adapter on one of the two cannot be merged into a whole model. Leave it out."
            )
        module: Any = layer
        module.cast_input_dtype_enabled = not autocast
    return adapted


def merge_adapter(
    base: str,
    adapter: str | Path,
    save_path: str | Path,
    dtype: torch.dtype = torch.float32,
    texts: Sequence[EncodedText] = (),
) -> None:
    """Write the model at `base` with the adapter added to its weights to `save_path`, an ordinary model folder.

    The sum is made in float32 and then rounded to `dtype`. A value head, and weights that transformers keeps in float32
    whatever the format (the correction of a router's scores), are not rounded.

    Args:
        base: Model that the adapter was trained on.
        adapter: Folder of the adapter.
        save_path: Folder of the merged model.
        dtype: Number format of its weights.
        texts: Texts to which the saved model must give the log-probs of base and adapter.

    Raises:
        UserError: The base cannot be loaded, or the saved model computes something else than base and adapter.
    """
    from peft import PeftModel
    from safetensors import safe_open

    model = load_weights(base)
    with safe_open(Path(adapter) / "adapter_model.safetensors", "pt") as weights:
        if any(HEAD in name for name in weights.keys()):  # noqa: SIM118
            attach_value_head(model)
    adapted = PeftModel.from_pretrained(model, str(adapter)).eval()
    expected = score_texts(adapted, texts, share=False)
    merged = adapted.merge_and_unload()
    round_weights(merged, dtype)
    save_weights(merged, save_path)
    if texts:
        del model, adapted, merged
        saved = score_texts(load_weights(save_path, dtype).eval(), texts, share=False)
        distance = float(np.abs(np.concatenate(saved) - np.concatenate(expected)).mean())
        if not distance <= (BF16_DISTANCE if dtype.itemsize < 4 else MERGED_DISTANCE):
            raise UserError(
                f"{save_path}: the merged model is not the one that was trained. Its log-probs differ by "
                f"{distance:.2g} per token from those of {base} with the adapter in {adapter}, which is whole: use "
                "that, or train other --target_modules."
            )


def round_weights(model: Any, dtype: torch.dtype) -> None:
    """Cast the weights to `dtype`, but not those that transformers loads in float32 beside weights of any format."""
    kept = [HEAD, *(getattr(model, "_keep_in_fp32_modules_strict", None) or ())]
    pattern = re.compile(rf"(?:^|\.)(?:{'|'.join(kept)})(?:\.|$)")
    for name, weight in [*model.named_parameters(), *model.named_buffers()]:
        if weight.is_floating_point() and not pattern.search(name):
            weight.data = weight.data.to(dtype)
