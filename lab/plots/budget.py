"""Cost of a trained agent: the CPU seconds of every step behind it, and the dialogues collected for it.

The manifest beside each output names its inputs and the CPU seconds of the process that finished it. Following the
inputs finds all steps behind a graded file. The seconds of a process that was killed are not known, of a training with
several processes those of the first one are, and GPUs are not counted.
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.records import human_label


class UnknownCost(UserError):
    """Something behind a result is not on this disk, so that it is not known how it was made, and at what cost."""


def cost_of(graded_path: str | Path) -> dict[str, float]:
    """{cpu_seconds, dialogues} of everything that the dialogues of a graded file were played with.

    Raises:
        UnknownCost: See `behind`.
    """
    before = behind_dialogues(graded_path)
    return {"cpu_seconds": sum(map(cpu_seconds_of, before)), "dialogues": float(sum(map(dialogues_in, before)))}


def cpu_seconds_of(path: str | Path) -> float:
    """CPU seconds of the process that finished an output; 0 for a file that no step of ours has made."""
    return float((read_manifest(path) or {}).get("cpu_seconds", 0.0))


def behind_dialogues(graded_path: str | Path) -> list[str]:
    """All outputs that the dialogues of a graded file were played with, each once, without these dialogues themselves.

    Raises:
        UnknownCost: See `behind`.
    """
    _check_known(graded_path)
    (played, *_) = inputs_of(graded_path) or [str(graded_path)]
    parts = inputs_of(played) if _is_gathered(played) else [played]
    return list(dict.fromkeys(path for part in parts for source in inputs_of(part) for path in behind(source)))


def behind(path: str | Path) -> list[str]:
    """The output itself and all outputs that it was made from, directly or not.

    Raises:
        UnknownCost: One of them is neither on this disk nor has a manifest here.
    """
    found: dict[str, None] = {}
    waiting = [_key(path)]
    while waiting:
        here = waiting.pop()
        if here not in found:
            _check_known(here)
            found[here] = None
            waiting += map(_key, inputs_of(here))
    return list(found)


def inputs_of(path: str | Path) -> list[str]:
    """The inputs named in the manifest of an output (a file, or a model's folder)."""
    manifest = read_manifest(path)
    return list(manifest["inputs"]) if manifest else []


def dialogues_in(path: str | Path) -> int:
    """The number of dialogues that were collected into a file; 0 for anything else, also for a graded copy."""
    manifest = _collection(path)
    return int(manifest.get("summary", {}).get("dialogues", 0)) if manifest else 0


def human_of(path: str | Path) -> str | None:
    """The simulated human of the dialogues that were collected into a file; None for anything else."""
    manifest = _collection(path)
    return human_label(manifest["settings"].get("human")) if manifest else None


def _collection(path: str | Path) -> dict | None:
    """The manifest of a file into which dialogues were collected; None for anything else, also for a graded copy."""
    manifest = read_manifest(path)
    return manifest if manifest and {"agent_model", "env_model"} <= manifest["settings"].keys() else None


def _is_gathered(path: str | Path) -> bool:
    """Whether the inputs of an output are its shards."""
    manifest = read_manifest(path)
    return manifest is not None and "gathered" in manifest["settings"]


def _check_known(path: str | Path) -> None:
    if not Path(path).exists() and read_manifest(path) is None:
        raise UnknownCost(
            f"{path} is not here, so that what lies behind the results made with it, and their cost, is not known. "
            "Give the command where the runs are, or bring the file back with its manifest."
        )


def _key(path: str | Path) -> str:
    return str(Path(path).resolve()) if str(path) else ""
