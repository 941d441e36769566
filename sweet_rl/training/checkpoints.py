"""Checkpoints: when they are written, and from which one a training goes on.

A checkpoint is written into the folder `partial`, which gets the checkpoint's name when it is whole.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from accelerate.utils import broadcast_object_list

from sweet_rl.runs.errors import UserError
from sweet_rl.training.engine import Engine
from sweet_rl.training.log import Log
from sweet_rl.training.settings import TrainingSettings

CHECKPOINTS = "checkpoints"
PARTIAL = "partial"
STATE = "state.json"


class Checkpoints:
    """Writes the checkpoints of a training, and continues from the newest one. All processes call its methods.

    A checkpoint holds the trained weights and the optimiser's state (`Engine.save`), and in `state.json` the number of
    steps and the log. Order, learning rate and random numbers follow from the step.
    """

    def __init__(self, folder: Path, settings: TrainingSettings, engine: Engine):
        self.folder, self.settings, self.engine = folder, settings, engine
        self.restart_clock()

    def restart_clock(self) -> None:
        """Begin the minutes until the next checkpoint by time."""
        self._written = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether a checkpoint is written after a step. All processes follow the clock of the first."""
        if self.settings.save_steps and step % self.settings.save_steps == 0:
            return True
        minutes = self.settings.save_minutes
        if minutes is None:
            return False
        (late,) = broadcast_object_list([time.monotonic() - self._written >= 60 * minutes])
        return late

    def save(self, step: int, log: Log) -> None:
        """Write a checkpoint. Older ones are removed when it is whole."""
        accelerator, partial = self.engine.accelerator, self.folder / PARTIAL
        path = self.folder / f"checkpoint-{step}"
        if accelerator.is_main_process:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        accelerator.wait_for_everyone()
        self.engine.save(partial)
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            state = {"step": step, "log": log.state(), "processes": accelerator.num_processes}
            (partial / STATE).write_text(json.dumps(state))
            partial.rename(path)
            for old in whole_checkpoints(self.folder):
                if old != path:
                    shutil.rmtree(old)
        accelerator.wait_for_everyone()
        self.restart_clock()

    def newest(self) -> Path | None:
        """The checkpoint that is continued; None without one.

        Raises:
            UserError: Under ZeRO it was written by another number of processes.
        """
        (path,) = broadcast_object_list([max(whole_checkpoints(self.folder), key=step_of, default=None)])
        if path is None:
            return None
        processes = json.loads((path / STATE).read_text())["processes"]
        if self.settings.zero_stage is not None and processes != self.engine.accelerator.num_processes:
            raise UserError(
                f"{path} was written by {processes} processes, and --zero_stage divides it among as many: start "
                f"{processes} processes again, not {self.engine.accelerator.num_processes}, or give --overwrite to "
                "begin again."
            )
        return path

    def resume(self, log: Log) -> int:
        """Read the newest checkpoint into model, optimiser and log: its number of steps, 0 without one."""
        path = self.newest()
        self.restart_clock()
        if path is None:
            return 0
        state = json.loads((path / STATE).read_text())
        self.engine.load(path)
        log.restore(state["log"])
        return state["step"]


def whole_checkpoints(folder: Path) -> list[Path]:
    """The folders of checkpoints that were written to their end."""
    return [path for path in folder.glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdecimal()]


def step_of(checkpoint: Path) -> int:
    """The number of steps after which the checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))
