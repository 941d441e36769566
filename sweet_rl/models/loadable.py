"""Whether a checkpoint can be loaded, found out without loading it: before anything is written, or waited for."""

from __future__ import annotations

import json
from pathlib import Path

from sweet_rl.errors import UserError

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def check_loadable(path: str | Path) -> None:
    """Raises UserError if the model at `path` (folder or hub name) has no configuration that can be read, or if
    its folder lacks weights or holds a torn safetensors file."""
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(str(path))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: no model can be loaded from there. {_first_line(error)}") from error
    if Path(path).is_dir():
        for file in _weight_files(Path(path)):
            _check_weights(file, path)


def _weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights; those of an index, where they are several."""
    for name in _WEIGHTS:
        index = folder / f"{name}.index.json"
        if index.is_file():
            try:
                return sorted({folder / shard for shard in json.loads(index.read_text())["weight_map"].values()})
            except (ValueError, KeyError, AttributeError) as error:
                raise UserError(f"{folder}: no model can be loaded from there. {index.name} is damaged.") from error
        if (folder / name).is_file():
            return [folder / name]
    raise UserError(f"{folder}: no model can be loaded from there. It holds neither {' nor '.join(_WEIGHTS)}.")


def _check_weights(file: Path, path: str | Path) -> None:
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        raise UserError(f"{path}: no model can be loaded from there. {file.name} is missing.")
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "numpy"):
                pass
        except SafetensorError as error:
            raise UserError(
                f"{path}: no model can be loaded from there. {file.name} is damaged or was not copied whole ({error})."
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
