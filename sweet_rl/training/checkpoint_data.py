"""Checkpoints of torch read as data. torch itself would run code that a pickle in one of them names."""

from __future__ import annotations

import io
import pickle
from pathlib import Path, PosixPath
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner
from torch.distributed.checkpoint import metadata as metadata_of_torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import ReadItem
from torch.serialization import _get_layout

_DATA = {("pathlib", "PosixPath"): PosixPath, ("torch", "Size"): torch.Size} | {
    (found.__module__, found.__name__): found for found in (_StorageInfo, _get_layout)
}


class _DataOnly(pickle.Unpickler):
    """Makes paths, sizes, data types and the records of torch's metadata, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _DATA:
            return _DATA[module, name]
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        if module == metadata_of_torch.__name__ and "." not in name:
            found = getattr(metadata_of_torch, name, None)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"it names {module}.{name}, which may run code")


def check_metadata(checkpoint: Path) -> None:
    """Raise UnpicklingError if a file of metadata in the checkpoint names anything that is no data."""
    for path in checkpoint.glob("*.metadata"):
        with open(path, "rb") as file:
            _DataOnly(file).load()


class DataPlanner(DefaultLoadPlanner):
    """Reads what is no tensor only if it is plain data."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        torch.load(value, weights_only=True)
        value.seek(0)
        super().load_bytes(read_item, value)
