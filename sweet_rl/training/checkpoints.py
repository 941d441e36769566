"""Checkpoints: when they are written, which one a training continues from, and a disk that is full."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from transformers.trainer_callback import TrainerCallback

from sweet_rl.runs.errors import FULL_DISK, UserError, first_line

COMPLETE = "complete.json"
"""Written into a checkpoint after all processes have written their parts."""

# torch.save and safetensors raise errors of their own, without an errno.
_FULL_TEXTS = ("No space left on device", "iostream error", "unexpected pos", "PytorchStreamWriter failed")


BEGIN_AGAIN = "Remove the checkpoint, and the same command begins again, at an older one if there is one."


class CheckpointSchedule(TrainerCallback):
    """Asks the Trainer for a checkpoint at each epoch's end, every `steps` steps and every `minutes` minutes.

    Held-out examples are evaluated at the first two, which do not depend on the machine: at each epoch's end even if
    no checkpoint is written then.

    Args:
        steps: optimiser steps between checkpoints; None: none are written for this reason.
        minutes: minutes between checkpoints; None: none are written for this reason.
        agreed: the value of the first process, from that of each process; called in all processes at the same step.
        epochs: whether checkpoints are written at the ends of epochs.
    """

    def __init__(
        self,
        steps: int | None,
        minutes: float | None,
        agreed: Callable[[Any], Any] = lambda value: value,
        epochs: bool = True,
    ):
        self.steps, self.minutes, self.agreed, self.epochs = steps, minutes, agreed, epochs
        self.last = time.monotonic()

    def on_train_begin(self, args, state, control, **kwargs):
        self.last = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        by_steps = bool(self.steps and state.global_step % self.steps == 0)
        ends = float(state.epoch).is_integer()
        if by_steps or ends:
            control.should_evaluate = args.eval_strategy != "no"
        control.should_save = by_steps or (ends and self.epochs) or self._late()

    def on_save(self, args, state, control, **kwargs):
        self.last = time.monotonic()

    def _late(self) -> bool:
        return self.minutes is not None and self.agreed(time.monotonic() - self.last >= 60 * self.minutes)


def mark_complete(folder: str | Path, step: int, best: str | None, processes: int) -> None:
    """Declare the checkpoint of `step` complete and remove older ones, all but `best`.

    Called by the first process after all processes have written their parts; until then the older checkpoint stays.

    Args:
        folder: Folder of the checkpoints.
        step: Number of the optimiser step.
        best: Path of another checkpoint that is kept.
        processes: Number of processes that wrote it.
    """
    checkpoint = Path(folder) / f"checkpoint-{step}"
    sizes = {str(p.relative_to(checkpoint)): p.stat().st_size for p in checkpoint.rglob("*") if p.is_file()}
    partial = checkpoint / f"{COMPLETE}.partial"
    partial.write_text(json.dumps({"processes": processes, "files": sizes}))
    partial.replace(checkpoint / COMPLETE)
    for path in Path(folder).glob("checkpoint-*"):
        if path != checkpoint and (best is None or path != Path(best)):
            shutil.rmtree(path)


def last_checkpoint(folder: Path) -> str | None:
    """The newest complete checkpoint. Incomplete ones are removed: of several processes only the first calls this."""
    complete = []
    for path in folder.glob("checkpoint-*"):
        if (path / COMPLETE).exists():
            complete.append(path)
        else:
            shutil.rmtree(path)
    return str(max(complete, key=lambda path: int(path.name.split("-")[1]))) if complete else None


def check_files(checkpoint: str) -> None:
    """Raise UserError naming a file of the checkpoint that is missing or has another size than when it was complete.

    Without its optimiser's state, for example, a training would go on with a new one.
    """
    sizes = json.loads((Path(checkpoint) / COMPLETE).read_text()).get("files", {})
    for name, size in sizes.items():
        path = Path(checkpoint) / name
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            raise UserError(
                f"{path} {'is missing' if found is None else f'has {found} bytes instead of {size}'}. {BEGIN_AGAIN}"
            )


def processes_of(checkpoint: str) -> int:
    """The number of processes that wrote the checkpoint."""
    return json.loads((Path(checkpoint) / COMPLETE).read_text())["processes"]


class Continued(TrainerCallback):
    """Names a checkpoint that cannot be continued: a context manager around the training, whose callback it is too.

    Args:
        checkpoint: Path of the checkpoint; None names nothing.
    """

    def __init__(self, checkpoint: str | None):
        self.checkpoint = checkpoint

    def on_step_begin(self, args, state, control, **kwargs):
        self.checkpoint = None  # all of it has been read

    def __enter__(self) -> Continued:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self.checkpoint is None or not isinstance(error, Exception) or isinstance(error, UserError):
            return
        if not _is_full_disk(error):
            raise UserError(f"{self.checkpoint} is damaged: {first_line(error)}. {BEGIN_AGAIN}") from error


@contextlib.contextmanager
def full_disk_named(folder: str | Path) -> Iterator[None]:
    """Turn an error of a write to a full disk into a UserError that names `folder`."""
    try:
        yield
    except Exception as error:
        if not _is_full_disk(error):
            raise
        free = shutil.disk_usage(folder).free
        raise UserError(
            f"{folder}: the disk is full ({free / 1e9:.1f} GB free). The last complete checkpoint stays. Make room on "
            "this disk, then give the same command again: the training goes on from there."
        ) from error


def _is_full_disk(error: BaseException) -> bool:
    return getattr(error, "errno", None) in FULL_DISK or any(text in str(error) for text in _FULL_TEXTS)
