"""A model by its name: where it lies, whether it can be loaded, its weights, and how many GPUs it needs.

Sampling, scoring and training load models here and nowhere else. A name is that of a packaged agent, a checkpoint
folder, or the name of a model on the Hugging Face hub (which transformers downloads).
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl.models.threads import choose_threads
from sweet_rl.runs.errors import UserError, first_line, read_by_library

if TYPE_CHECKING:
    import torch

PACKAGED = Path(__file__).parent / "packaged"
GPU_SHARE = 0.8  # of a GPU that weights may take; the rest is for what is computed with them
_ADAPTER = "adapter_config.json"
_WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


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

    Raises:
        UserError: It cannot be read, or the folder holds an adapter.
    """
    if str(name).endswith(".py"):
        raise UserError(f"{name} is a Python file, not a model. Give a critic of your own as --critic_type {name}.")
    if (Path(model_path(str(name))) / _ADAPTER).is_file():
        raise _is_adapter(name)
    with read_by_library(lambda error: _cannot_load(name, first_line(error))):
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(model_path(str(name)))


def check_loadable(name: str | Path) -> None:
    """Check a model's configuration and, in a folder, its weight files, without loading them.

    Raises:
        UserError: The configuration cannot be read, or weights are missing or damaged.
    """
    load_config(name)
    folder = Path(model_path(str(name)))
    if folder.is_dir():
        for file in _weight_files(folder):
            check_weights(file)


def load_weights(
    name: str | Path,
    dtype: torch.dtype | str | None = None,
    in_4bit: bool = False,
    auto_class: Any = None,
    **from_pretrained: Any,
) -> torch.nn.Module:
    """Return the model, to be trained or frozen (`freeze`), and fit the CPU threads to it (threads.py).

    Args:
        name: The model.
        dtype: Number format of the weights. Default: float32.
        in_4bit: Whether the linear layers are NormalFloat4 with quantised constants (QLoRA, Dettmers et al. 2023) and
            compute in `dtype`.
        auto_class: Auto class of transformers. Default: AutoModelForCausalLM.
        from_pretrained: Further arguments of its `from_pretrained`.

    Raises:
        UserError: The model cannot be loaded, a weight is missing, NaN or infinite, or it is an adapter.
    """
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    check_loadable(name)
    dtype = dtype or torch.float32
    if in_4bit:
        from_pretrained["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
        )
    with read_by_library(lambda error: _cannot_load(name, str(error) or first_line(error))):
        kind = auto_class or AutoModelForCausalLM
        model, found = kind.from_pretrained(
            model_path(str(name)), dtype=dtype, output_loading_info=True, **from_pretrained
        )
    if getattr(model, "_hf_peft_config_loaded", False):  # of the hub: transformers loads the model that it names
        raise _is_adapter(name)
    if missing := sorted(found["missing_keys"]):
        raise _cannot_load(
            name,
            f"The checkpoint lacks {len(missing)} of its weights, the first of them {missing[0]}, and random numbers "
            "would take their place. Copy or save it again, whole.",
        )
    check_finite(name, model)
    choose_threads(model)
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):  # scoring would pack 4-bit layers, without gradients
            module.support_avx512bf16_for_cpu = False
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # its row gets no gradients, and in many models the pad is the EOS
    return model


def save_weights(model: Any, folder: str | Path, state_dict: dict[str, torch.Tensor] | None = None) -> None:
    """Write a model to an ordinary folder, with the generation settings with which it was loaded.

    Older versions of transformers refuse to write settings that they load (a temperature without `do_sample`, as many
    published models have), so that a training would be lost at its end.

    Args:
        model: A `PreTrainedModel`.
        folder: Folder of the model.
        state_dict: Its weights, if the model does not hold them itself.
    """
    settings = model.generation_config
    if settings is not None:
        model.generation_config = type(settings)()
    try:
        model.save_pretrained(str(folder), state_dict=state_dict)
    finally:
        model.generation_config = settings
    if settings is not None and model.can_generate():
        settings.to_json_file(Path(folder) / "generation_config.json", keys_to_pop=["compile_config"])


def first_not_finite(model: torch.nn.Module) -> str | None:
    """Return the name of the first weight with NaN or infinity in it, None if there is none.

    Under ZeRO-3 each process sees its own part of a weight. Weights in 8 bits or fewer are not looked at.
    """
    import torch

    for name, parameter in model.named_parameters():
        weight = getattr(parameter, "ds_tensor", parameter).detach()
        if not weight.is_floating_point() or weight.itemsize < 2 or weight.is_meta or not weight.numel():
            continue
        # Both are NaN if one number is. Without memory for a mask, and ten times as fast as torch.isfinite(weight).
        if not torch.isfinite(torch.stack(torch.aminmax(weight))).all():
            return name
    return None


def check_finite(name: str | Path, model: torch.nn.Module) -> None:
    """Raise UserError if a weight of the model that was loaded from `name` is NaN or infinite."""
    if (weight := first_not_finite(model)) is not None:
        raise _cannot_load(
            name, f"The weight {weight} holds NaN or infinity: its training has failed, or the file is damaged."
        )


def freeze(model: torch.nn.Module, device: torch.device | str | None = None) -> torch.nn.Module:
    """Return the model in evaluation mode and without gradients, on `device` (default: the GPU if there is one)."""
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval().requires_grad_(False)


def load_frozen(
    name: str | Path, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> torch.nn.Module:
    """Return the model for scoring (`freeze`).

    If no device is given and one GPU is too small for the weights, their layers are divided among all visible GPUs.

    Args:
        name: The model.
        dtype: Number format of the weights. Default: float32.
        device: Device of the weights. Default: the GPU if there is one.

    Raises:
        UserError: The model cannot be loaded.
    """
    if device is None and needs_several_gpus(name, dtype):
        return load_weights(name, dtype, device_map="auto").eval().requires_grad_(False)
    return freeze(load_weights(name, dtype), device)


def require_bitsandbytes(flag: str) -> None:
    """Raise UserError naming the `flag` that needs it if bitsandbytes is not installed."""
    if importlib.util.find_spec("bitsandbytes") is None:
        raise UserError(f"{flag} needs bitsandbytes: pip install -e '.[qlora]', or leave the flag out.")


def parameter_count(name: str | Path) -> int:
    """Return the number of weights of a model, from its configuration alone."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    config = load_config(name)
    kinds = (AutoModelForCausalLM, AutoModelForImageTextToText)
    kind = next((kind for kind in kinds if type(config) in kind._model_mapping), AutoModelForCausalLM)
    with torch.device("meta"):
        model = kind.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def gpu_memory(free: bool = False) -> list[int]:
    """Return the bytes of each visible GPU: all, or those that are free."""
    import torch

    if free:
        return [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
    return [torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count())]


def gpus_for(weights: float, memory: list[int]) -> int:
    """Return the fewest GPUs that hold the weights: 1, 2, 4 ... or all of them.

    Args:
        weights: Bytes of all models that are held at the same time.
        memory: Bytes of each GPU; at least one.
    """
    count = 1
    while count < len(memory) and weights > GPU_SHARE * count * min(memory):
        count *= 2
    return min(count, len(memory))


def needs_several_gpus(name: str | Path, dtype: torch.dtype | None = None) -> bool:
    """Return whether there are several GPUs and the model's weights do not fit into what is free on one of them."""
    import torch

    memory = gpu_memory(free=True)
    return len(memory) > 1 and gpus_for(parameter_count(name) * (dtype or torch.float32).itemsize, memory) > 1


def _cannot_load(name: str | Path, reason: str) -> UserError:
    return UserError(f"{name}: no model can be loaded from there. {reason}")


def weight_map(index: Path) -> dict[str, str]:
    """Return the file of each weight by an index file. Raises UserError if it is damaged."""
    try:
        found = json.loads(index.read_text())["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _cannot_load(index.parent, f"{index.name} is damaged.") from error
    if not isinstance(found, dict) or not all(isinstance(file, str) for file in found.values()):
        raise _cannot_load(index.parent, f"{index.name} is damaged.")
    return found


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that hold the weights: one, or those of an index."""
    for name in _WEIGHT_FILES:
        index = folder / f"{name}.index.json"
        if index.is_file():
            return sorted({folder / shard for shard in weight_map(index).values()})
        if (folder / name).is_file():
            return [folder / name]
    raise _cannot_load(folder, f"It holds neither {' nor '.join(_WEIGHT_FILES)}.")


def check_weights(file: Path) -> None:
    """Raise UserError if a file of weights is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        raise _cannot_load(file.parent, f"{file.name} is missing.")
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "numpy"):
                pass
        except SafetensorError as error:
            raise _cannot_load(file.parent, f"{file.name} is damaged or was not copied whole ({error}).") from error


def _is_adapter(name: str | Path) -> UserError:
    return _cannot_load(
        name,
        f"It holds an adapter ({_ADAPTER}), which is not loaded here. If train_dpo.py wrote it, give the folder above "
        "it, which holds the merged model. Otherwise merge it by merge_and_unload() of peft, or take the file out of "
        "the folder of a whole model.",
    )
