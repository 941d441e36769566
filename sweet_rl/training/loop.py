"""A training from its data to the saved model: continued where it stopped, reported, and finished once."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import TrainingArguments

from sweet_rl.runs.run import DirectoryRun, directory_manifest
from sweet_rl.training.adapters import FOLDER, merge_adapter
from sweet_rl.training.settings import CHECKPOINTS, LoopSettings
from sweet_rl.training.trainer import GroupedTrainer

log = logging.getLogger(__name__)


def train_once(
    save_path: str,
    settings: dict,
    inputs: list[str | None],
    overwrite: bool,
    loop: LoopSettings,
    args: TrainingArguments,
    base: str,
    make: Callable[[], GroupedTrainer],
    counts: dict,
    changed: Counter,
) -> dict | None:
    """Trains what `make` gives and saves it to `save_path`, unless this very training was finished before. Returns
    its summary (`counts`, and what was measured), None if it was complete.

    settings, inputs: as of `runs.directory_manifest`. base: the model that was started from. changed: what became
    of examples that were not taken as they are -> how many. Raises UserError for an output that cannot be used; then
    nothing is overwritten.
    """
    run = open_model_directory(save_path, settings, inputs, overwrite, args)
    with run or contextlib.nullcontext():
        if is_complete(run, args):
            if args.process_index == 0:
                print(f"{save_path}: already complete")
            return None
        summary = fit(make(), save_path, run, {**counts, "dropped": dict(changed)}, loop, base)
        if args.process_index == 0:
            for why, count in changed.items():
                tqdm.write(f"{count} {why}")
            figures = ", ".join(f"{k} {v:.4g}" for k, v in summary["last"].items() if isinstance(v, int | float))
            print(f"{save_path}: {summary['steps']} steps in {summary['seconds']} s; last logged: {figures}")
        return summary


def open_model_directory(
    save_path: str, settings: dict, inputs: list[str | None], overwrite: bool, args: TrainingArguments
) -> DirectoryRun | None:
    """The model directory, opened by the first process; None in the others. Names on a hub are settings,
    not inputs.
    """
    if args.process_index != 0:
        return None
    return directory_manifest(save_path, settings, inputs, overwrite)


def is_complete(run: DirectoryRun | None, args: TrainingArguments) -> bool:
    """Whether the run was finished before, told by the first process to all."""
    answer = [run is not None and run.complete]
    if args.world_size > 1:
        torch.distributed.broadcast_object_list(answer)
    return answer[0]


def whole_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written to its end; torn ones are removed."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        try:
            json.loads((path / "trainer_state.json").read_text())  # the Trainer writes it last
            whole.append(path)
        except (OSError, ValueError):
            shutil.rmtree(path)
    return str(max(whole, key=lambda path: int(path.name.split("-")[1]))) if whole else None


def fit(
    trainer: GroupedTrainer,
    save_path: str | Path,
    run: DirectoryRun | None,
    summary: dict,
    loop: LoopSettings,
    base: str,
) -> dict:
    """Trains from the last checkpoint or from the start, saves model and tokenizer, and finishes the run.

    Of an adapter both are saved: itself in `adapter/`, and the whole model that it makes of `base`. Writes
    `training_log.jsonl` (one line a logged step or evaluation). Returns the summary with the last logged figures.
    """
    save_path = Path(save_path)
    checkpoint = whole_checkpoint(save_path / CHECKPOINTS)
    if checkpoint:
        log.warning("continuing from %s", checkpoint)
    trainer.since = time.perf_counter()
    result = trainer.train(resume_from_checkpoint=checkpoint)
    if loop.lora_rank:
        trainer.save_model(str(save_path / FOLDER))
        if run is not None:
            merge_adapter(base, save_path / FOLDER, save_path, loop.dtype)
            (save_path / FOLDER / "training_args.bin").unlink(missing_ok=True)
    else:
        trainer.save_model(str(save_path))
    evaluations = [line for line in trainer.state.log_history if "eval_loss" in line]
    history = [line for line in trainer.state.log_history if "loss" in line or "eval_loss" in line]
    figures = {
        k: v
        for line in ([line for line in history if "loss" in line][-1:], evaluations[-1:])
        for k, v in (line[0] if line else {}).items()
        if k not in ("epoch", "step", "learning_rate")
    }
    summary = {
        **summary,
        "steps": trainer.state.global_step,
        "seconds": round(result.metrics["train_runtime"], 1),
        "train_loss": result.metrics["train_loss"],
        "last": figures,
        **({"best_step": trainer.state.best_global_step} if loop.keep == "best" else {}),
    }
    if run is not None:
        trainer.chat.tokenizer.save_pretrained(str(save_path))
        with open(save_path / "training_log.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in history)
        (save_path / "training_args.bin").unlink(missing_ok=True)  # a pickle with paths of this machine
        run.finish(summary)
        shutil.rmtree(save_path / CHECKPOINTS, ignore_errors=True)
    return summary
