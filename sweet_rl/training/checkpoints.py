"""Checkpoints: when they are written, which one a training continues from, and a disk that is full."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list

from sweet_rl.runs.errors import FULL_DISK, UserError, first_line
from sweet_rl.runs.texts import make_durable, replace_text
from sweet_rl.training.engine import Engine
from sweet_rl.training.log import Log
from sweet_rl.training.settings import TrainingSettings

CHECKPOINTS = "checkpoints"
STATE = "state.json"

COMPLETE = "complete.json"
"""Written into a checkpoint after all processes have written their parts."""

# torch.save and safetensors raise errors of their own, without an errno.
_FULL_TEXTS = ("No space left on device", "iostream error", "unexpected pos", "PytorchStreamWriter failed")
BEGIN_AGAIN = (
    "Remove the checkpoint and any newer one beside it: the same command begins again, at an older one if there is one."
)


class Checkpoints:
    """Writes the checkpoints of a training, and continues from one.

    A checkpoint holds the trained weights and the optimiser's state (`Engine.save`), and in `state.json` the number of
    steps, the log and the best evaluation so far. Order, learning rate and random numbers follow from the step.

    Args:
        folder: Folder of the checkpoints.
        settings: Settings of the training: when checkpoints are written, and which one is kept.
        engine: Processes, model and optimiser.
        found: The checkpoint that is continued, if there is one.
    """

    def __init__(self, folder: Path, settings: TrainingSettings, engine: Engine, found: Path | None = None):
        self.folder, self.settings, self.engine, self.found = folder, settings, engine, found
        self.best: dict[str, Any] | None = None  # step and loss
        self.restart_clock()

    def restart_clock(self) -> None:
        """Begin the minutes until the next checkpoint by time."""
        self._written = time.monotonic()

    def due(self, step: int, ends_epoch: bool) -> tuple[bool, bool]:
        """Whether the model is evaluated after a step, and whether a checkpoint is written.

        Both happen every `save_steps` steps and at an epoch's end (there a checkpoint only with `save_epochs`, or to
        keep the best). By time a checkpoint is written only: another run would evaluate at another step. All processes
        follow the clock of the first.
        """
        how = self.settings
        by_steps = bool(how.save_steps and step % how.save_steps == 0)
        by_epoch = ends_epoch and (how.save_epochs or how.keep == "best")
        return by_steps or ends_epoch, by_steps or by_epoch or self._late()

    def _late(self) -> bool:
        minutes = self.settings.save_minutes
        if minutes is None:
            return False
        (late,) = broadcast_object_list([time.monotonic() - self._written >= 60 * minutes])
        return late

    def evaluated(self, step: int, loss: float) -> None:
        """Remember the step with the lowest evaluation loss."""
        if self.settings.keep == "best" and (self.best is None or loss < self.best["loss"]):
            self.best = {"step": step, "loss": loss}

    def save(self, step: int, log: Log) -> None:
        """Write a checkpoint. Older ones are removed when it is complete, all but the best."""
        path = self.folder / f"checkpoint-{step}"
        accelerator = self.engine.accelerator
        path.mkdir(parents=True, exist_ok=True)
        self.engine.save(path)
        state = {"step": step, "best": self.best, "log": log.state()}
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            (path / STATE).write_text(json.dumps(state))
            mark_complete(self.folder, step, self.best["step"] if self.best else None, accelerator.num_processes)
        accelerator.wait_for_everyone()
        self.restart_clock()

    def resume(self, log: Log) -> int:
        """Read the checkpoint that is continued into model, optimiser and log: its number of steps, 0 without one.

        Raises UserError if it is damaged.
        """
        if self.found is None:
            return 0
        with damage_named(self.found):
            state = json.loads((self.found / STATE).read_text())
            self.engine.load(self.found)
            log.restore(state["log"])
            self.best = state["best"]
            return state["step"]

    def load_best(self) -> int:
        """Put the weights with the lowest evaluation loss into the model; returns their step."""
        if self.best is None:
            raise ValueError("no evaluation has been made")
        path = self.folder / f"checkpoint-{self.best['step']}"
        if self.engine.accelerator.is_main_process:
            check_files(path)
        with damage_named(path):
            self.engine.load(path)
        return self.best["step"]


def mark_complete(folder: Path, step: int, best: int | None, processes: int) -> None:
    """Declare the checkpoint of `step` complete, once the disk holds it, and remove older ones, all but `best`.

    Called by the first process after all processes have written their parts; until then the older checkpoint stays.

    Args:
        folder: Folder of the checkpoints.
        step: Number of the optimiser step.
        best: Step of another checkpoint that is kept.
        processes: Number of processes that wrote it.
    """
    checkpoint = folder / f"checkpoint-{step}"
    make_durable(checkpoint)
    sizes = {str(p.relative_to(checkpoint)): p.stat().st_size for p in checkpoint.rglob("*") if p.is_file()}
    content = {"processes": processes, "files": sizes, "sha256": _digests(checkpoint, sizes)}
    replace_text(checkpoint / COMPLETE, json.dumps(content))
    for path in _checkpoints(folder):
        if path.name not in (checkpoint.name, f"checkpoint-{best}"):
            _remove(path)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint. Incomplete ones are removed: of several processes only the first calls this."""
    complete = []
    for path in _checkpoints(folder):
        if (path / COMPLETE).exists():
            complete.append(path)
        else:
            _remove(path)
    return max(complete, key=step_of) if complete else None


def _checkpoints(folder: Path) -> list[Path]:
    """The folders of checkpoints, and nothing that somebody else has put beside them."""
    return [
        path
        for path in folder.glob("checkpoint-*")
        if re.fullmatch(r"checkpoint-[0-9]{1,18}", path.name) and path.is_dir()
    ]


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint; of a link, which may lead to another disk, the link."""
    if checkpoint.is_symlink():
        checkpoint.unlink()
    else:
        shutil.rmtree(checkpoint)


def step_of(checkpoint: Path) -> int:
    """The number of steps after which the checkpoint was written."""
    return int(checkpoint.name.split("-")[1])


def check_files(checkpoint: Path) -> None:
    """Raise UserError naming a file of the checkpoint that is missing, or not as it was when it was complete.

    Without its optimiser's state, for example, a training would go on with a new one. Checkpoints of earlier
    versions have sizes and no checksums. The best checkpoint so far is checked too: the training ends with its weights.
    """
    _check_own_files(checkpoint)
    with damage_named(checkpoint):
        best = json.loads((checkpoint / STATE).read_text()).get("best")
        if best is not None and best["step"] != step_of(checkpoint):
            _check_own_files(checkpoint.with_name(f"checkpoint-{best['step']}"))


def _check_own_files(checkpoint: Path) -> None:
    with damage_named(checkpoint):
        content = json.loads((checkpoint / COMPLETE).read_text())
        sizes, digests = dict(content.get("files", {})), dict(content.get("sha256", {}))
    for name, size in sizes.items():
        path = checkpoint / name
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            raise UserError(
                f"{path} {'is missing' if found is None else f'has {found} bytes instead of {size}'}. {BEGIN_AGAIN}"
            )
    for name, digest in _digests(checkpoint, digests).items():
        if digest != digests[name]:
            raise UserError(
                f"{checkpoint / name} is damaged: it has its size, but not the content that was written (sha256). "
                f"{BEGIN_AGAIN}"
            )


def _digests(checkpoint: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of files of a checkpoint, of several at the same time."""

    def digest(name: str) -> str:
        with open(checkpoint / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor() as threads:
        return dict(zip(names, threads.map(digest, names), strict=True))


def processes_of(checkpoint: Path) -> int:
    """The number of processes that wrote the checkpoint."""
    with damage_named(checkpoint):
        return int(json.loads((checkpoint / COMPLETE).read_text())["processes"])


@contextlib.contextmanager
def damage_named(checkpoint: Path) -> Iterator[None]:
    """Turn an error while the checkpoint is read into a UserError that names it."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or _is_full_disk(error):
            raise
        raise UserError(f"{checkpoint} is damaged: {first_line(error)}. {BEGIN_AGAIN}") from error


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
