"""A model by its name: where it lies, its configuration, its context and its weights.

Sampling, scoring and training load models here and nowhere else. A name is that of a packaged agent, a checkpoint
folder, or the name of a model on the Hugging Face hub (which transformers downloads).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl.runs.errors import UserError, first_line, read_by_library

if TYPE_CHECKING:
    import torch

PACKAGED = Path(__file__).parent / "packaged"
GPU_SHARE = 0.8  # of a GPU's free memory that frozen weights may take; the rest is for what is computed with them
_ADAPTER = "adapter_config.json"


def model_path(name: str) -> str:
    """Return the folder of a packaged agent (`mini`, `mini_hard`); other names are returned unchanged."""
    packaged = PACKAGED / name
    return str(packaged) if re.fullmatch(r"\w+", name) and packaged.is_dir() else name


def model_input(name: str) -> str | None:
    """Return what a run's manifest hashes of a model: its folder, or None if the model is not on this disk."""
    path = model_path(name)
    return path if Path(path).is_dir() else None


def load_config(name: str | Path) -> Any:
    """Return the model's configuration (a `PretrainedConfig`).

    Raises UserError if it cannot be read, or the folder holds an adapter.
    """
    if (Path(model_path(str(name))) / _ADAPTER).is_file():
        raise _is_adapter(name)
    with read_by_library(lambda error: _cannot_load(name, first_line(error))):
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(model_path(str(name)))


def context_length(config: Any) -> int | None:
    """Return the number of tokens that a text of the model may have, or None if its configuration does not tell.

    Linear and YaRN scaling stretch the context by their factor. With LongRoPE and dynamic NTK it is the original
    context, because beyond it a text would be rotated as the longest text of its batch. A sliding window is no limit.
    """
    text = config.get_text_config()
    limit = getattr(text, "max_position_embeddings", None)
    if not limit:
        return None
    rope = getattr(text, "rope_parameters", None) or {}
    original = rope.get("original_max_position_embeddings") or limit
    if rope.get("rope_type") in ("dynamic", "longrope"):
        return min(original, limit)
    if rope.get("rope_type") in ("linear", "yarn"):
        return max(limit, int(original * (rope.get("factor") or 1)))
    return limit


def check_length(tokens: int, context: int | None, where: str, remedy: str = "") -> None:
    """Raise UserError, naming the text's place and the remedy, for a text that is longer than the model's context."""
    if context is not None and tokens > context:
        raise UserError(f"{where}: {tokens} tokens, but the context of the model has {context}. {remedy}".rstrip())


def check_whole(name: str | Path) -> None:
    """Raise UserError if the configuration cannot be read, or the model is an adapter or has a cut file of weights."""
    from safetensors import SafetensorError, safe_open

    load_config(name)
    for file in sorted(Path(model_path(str(name))).glob("*.safetensors")):
        try:
            safe_open(file, "pt")
        except (SafetensorError, OSError) as error:
            raise _cannot_load(name, f"{file.name}: {error}") from error


def load_weights(
    name: str | Path,
    dtype: torch.dtype | str | None = None,
    in_4bit: bool = False,
    auto_class: Any = None,
    **from_pretrained: Any,
) -> torch.nn.Module:
    """Return the model, to be trained or frozen (`freeze`).

    Args:
        name: The model.
        dtype: Number format of the weights. Default: float32.
        in_4bit: Whether the linear layers are NormalFloat4 with quantised constants (QLoRA, Dettmers et al. 2023) and
            compute in `dtype`.
        auto_class: Auto class of transformers. Default: AutoModelForCausalLM.
        from_pretrained: Further arguments of its `from_pretrained`.

    Raises:
        UserError: The model cannot be loaded, a weight is missing, or it is an adapter.
    """
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    load_config(name)
    dtype = dtype or torch.float32
    if in_4bit:
        from_pretrained["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
        )
    with read_by_library(lambda error: _cannot_load(name, str(error) or first_line(error))):
        model, loading = (auto_class or AutoModelForCausalLM).from_pretrained(
            model_path(str(name)), dtype=dtype, output_loading_info=True, **from_pretrained
        )
    if getattr(model, "_hf_peft_config_loaded", False):  # from the hub: transformers loads the model that it names
        raise _is_adapter(name)
    if missing := sorted(loading["missing_keys"]):
        raise _cannot_load(
            name,
            f"The checkpoint lacks {len(missing)} of its weights, the first of them {missing[0]}, and random numbers "
            "would take their place. Copy or save it again, whole.",
        )
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):  # scoring would pack 4-bit layers, without gradients
            module.support_avx512bf16_for_cpu = False
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # this row would get no gradients; in many models it is the EOS
    return model


def load_frozen(
    name: str | Path, dtype: torch.dtype | None = None, device: torch.device | str | None = None, **kind: Any
) -> torch.nn.Module:
    """Return the model for scoring (`freeze`); `kind` are further arguments of `load_weights`.

    By default it lies on the first GPU if there is one; what does not fit there lies on the next.
    """
    import torch

    count = torch.cuda.device_count() if device is None and torch.cuda.is_available() else 0
    if count > 1:
        room = {number: int(GPU_SHARE * torch.cuda.mem_get_info(number)[0]) for number in range(count)}
        model = load_weights(name, dtype, device_map="sequential", max_memory=room, **kind)
        return model.eval().requires_grad_(False)
    return freeze(load_weights(name, dtype, **kind), device)


def freeze(model: torch.nn.Module, device: torch.device | str | None = None) -> torch.nn.Module:
    """Return the model in evaluation mode and without gradients, on `device` (default: the GPU if there is one)."""
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval().requires_grad_(False)


def save_weights(model: Any, folder: str | Path, state_dict: dict[str, torch.Tensor] | None = None) -> None:
    """Write a `PreTrainedModel` to a folder."""
    settings = model.generation_config
    if settings is not None and {"temperature", "top_p", "top_k"} & settings.to_diff_dict().keys():
        settings.do_sample = True  # many published models lack it, and transformers would refuse to write the others
    model.save_pretrained(str(folder), state_dict=state_dict)


def _cannot_load(name: str | Path, reason: str) -> UserError:
    return UserError(f"{name}: no model can be loaded from there. {reason}")


def _is_adapter(name: str | Path) -> UserError:
    return _cannot_load(
        name,
        f"It holds an adapter ({_ADAPTER}). If train_dpo.py wrote it, give the folder above it, which holds the merged "
        "model; else merge it by merge_and_unload() of peft.",
    )
