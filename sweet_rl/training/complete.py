"""Whether a training is finished already; this is checked before torch is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.manifest import check_same_run, new_manifest, read_manifest
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings, ValueSettings


def preference_settings(how: PreferenceSettings, ref_pretrain: str) -> dict[str, Any]:
    """The settings of a training with DPO, for its manifest."""
    return {"ref_pretrain": ref_pretrain, **to_settings(how), "normalize": how.normalization}


def value_settings(how: ValueSettings, hint: bool) -> dict[str, Any]:
    """The settings of a training with a value head, for its manifest."""
    return {**to_settings(how), "hint": hint}


def recorded_settings(
    pretrain: str, dataset: str, own: dict[str, Any], data: DataSettings, settings: TrainingSettings
) -> dict[str, Any]:
    """The settings of a training for its manifest; `own` are those of this kind of training only."""
    recorded = {"pretrain": pretrain, "dataset": dataset, **own, **to_settings(data, settings)}
    return recorded | {"learning_rate": settings.peak_learning_rate}


def read_inputs(pretrain: str, dataset: str, others: Sequence[str | None] = ()) -> list[str | None]:
    """The paths that a training reads. Names on a hub are settings, not inputs."""
    return [dataset, model_input(pretrain), *others]


def is_complete(
    pretrain: str,
    dataset: str,
    save_path: str,
    own: dict[str, Any],
    data: DataSettings,
    settings: TrainingSettings,
    overwrite: bool,
    inputs: Sequence[str | None] = (),
) -> bool:
    """Whether there is nothing to do: this training is finished, and `overwrite` is not set. Prints so.

    Raises:
        UserError: It holds a finished training with other settings or inputs.
    """
    manifest = None if overwrite else read_manifest(save_path)
    if manifest is None or manifest["status"] != "finished":
        return False
    recorded = recorded_settings(pretrain, dataset, own, data, settings)
    check_same_run(manifest, new_manifest(recorded, read_inputs(pretrain, dataset, inputs)), save_path)
    if os.environ.get("RANK", "0") == "0":
        print(f"{save_path}: already complete")
    return True
