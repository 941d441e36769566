"""Checks that a checkpoint can be loaded, without loading it, before a run writes anything."""

from __future__ import annotations

import json
from pathlib import Path

from sweet_rl.errors import UserError, first_line

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def check_loadable(path: str | Path) -> None:
    """Check the configuration and the weight files of a model.

    Args:
        path: Checkpoint folder or hub name; weights are checked in a folder only.

    Raises:
        UserError: The configuration cannot be read, or weights are missing or damaged.
    """
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(str(path))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: no model can be loaded from there. {first_line(error)}") from error
    if Path(path).is_dir():
        for file in _weight_files(Path(path)):
            _check_weights(file, path)


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that hold the weights: one, or those of an index."""
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
