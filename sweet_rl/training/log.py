"""The log of a training: means since the last line, speed and memory; shown beside a bar and sent to trackers."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from torch import Tensor

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.progress import progress_bar

SHOWN = ("loss", "margin", "accuracy")  # beside the progress bar


class Log:
    """Collects the figures of steps and writes a line from time to time.

    Attributes:
        history: All lines so far, one per logged step.

    Args:
        accelerator: Processes of the training.
        trackers: Names of the services that get the figures, from `tracker_names`.
        folder: Folder of the model; TensorBoard writes to `tensorboard/` in it.
    """

    def __init__(self, accelerator: Accelerator, trackers: list[str], folder: str | Path):
        self.accelerator = accelerator
        self.history: list[dict[str, Any]] = []
        self._steps: list[Mapping[str, float]] = []  # figures of the steps since the last line
        self._seconds = 0.0  # that a killed process had spent since the last line
        self._bar: Any = None
        if trackers:
            accelerator.log_with = trackers
            accelerator.project_configuration.logging_dir = str(Path(folder) / "tensorboard")
            accelerator.init_trackers(os.environ.get("WANDB_PROJECT", "sweet_rl"))

    def begin(self, step: int, steps: int) -> None:
        """Start the clock and the progress bar: `step` of the training's `steps` are done."""
        self.since = time.perf_counter() - self._seconds
        hidden = None if self.accelerator.is_main_process else True
        self._bar = progress_bar(total=steps, initial=step, desc="steps", unit="step", disable=hidden)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of the log."""
        return {"history": self.history, "steps": self._steps, "seconds": time.perf_counter() - self.since}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.history, self._steps, self._seconds = state["history"], state["steps"], state["seconds"]

    def step(self, step: int, means: Mapping[str, float], write: bool, **more: Any) -> None:
        """Count a step.

        Args:
            step: Number of steps that are done.
            means: Loss and other figures of the step, means over its items, and its number of `tokens`.
            write: Whether a line is due: with the means of the figures over the steps since the last one, the tokens
                computed per second, and the peak memory of the first process in GB.
            more: Further figures of the line.
        """
        self._steps.append(means)
        if write:
            count, now = len(self._steps), time.perf_counter()
            line = {name: sum(figures[name] for figures in self._steps) / count for name in means}
            more["tokens_per_second"] = line.pop("tokens") * count / (now - self.since)
            more["memory_gb"] = peak_memory_gb()
            self._write(step, {"loss": line.pop("loss")} | more | line)
            self._steps, self.since = [], now
        self._bar.update()

    def close(self) -> None:
        """End the progress bar and the trackers."""
        self._bar.close()
        for tracker in self.accelerator.trackers:
            tracker.finish()

    def _write(self, step: int, line: dict[str, Any]) -> None:
        self.history.append(line | {"step": step})
        self.accelerator.log({f"train/{name}": value for name, value in line.items()}, step=step)
        text = ", ".join(f"{name} {line[name]:.4g}" for name in SHOWN if name in line)
        self._bar.set_postfix_str(text, refresh=False)


def add_to(sums: dict[str, Tensor], figures: Mapping[str, Tensor]) -> None:
    """Add the figures to the sums of the same name."""
    for name, value in figures.items():
        sums[name] = sums[name] + value.detach() if name in sums else value.detach()


def means_over_items(sums: Mapping[str, Tensor], accelerator: Accelerator) -> dict[str, float]:
    """The sums over all processes, divided by their number of `items`; `tokens` is not divided."""
    values = torch.stack([value.double() for value in sums.values()])
    totals = dict(zip(sums, accelerator.reduce(values, reduction="sum").tolist(), strict=True))
    items = totals.pop("items")
    return {name: total if name == "tokens" else total / items for name, total in totals.items()}


def peak_memory_gb() -> float:
    """Peak memory in 10^9 bytes: of the GPU if there is one, else of the process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e9 if sys.platform == "darwin" else peak * 1024 / 1e9


def tracker_names(names: str) -> list[str]:
    """The trackers in a list with commas; none for "none". Raises UserError for one that is not installed."""
    wanted = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
    installed = [str(name) for name in get_available_trackers()]
    for name in wanted:
        if name not in installed:
            raise UserError(
                f"--report_to {name} is not known or not installed. Known here: {', '.join(['none', *installed])}."
            )
    return wanted
