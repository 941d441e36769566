"""A training from its dataset to the saved model: continued after a kill, reported, and done once."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from sweet_rl.chat import ChatFormat
from sweet_rl.cli import to_settings
from sweet_rl.models.load import model_input
from sweet_rl.names import model_path
from sweet_rl.records import read_records
from sweet_rl.runs.push import pushed
from sweet_rl.runs.run import DirectoryRun, directory_manifest
from sweet_rl.scoring.load import load_weights
from sweet_rl.scoring.value_head import attach_value_head
from sweet_rl.training.arguments import CHECKPOINTS, training_arguments, weights_dtype
from sweet_rl.training.examples import split_by_task
from sweet_rl.training.lora import FOLDER, merge_adapter, with_adapter
from sweet_rl.training.settings import DataSettings, TrainingSettings
from sweet_rl.training.trainer import GroupedTrainer, Objective

log = logging.getLogger(__name__)


class Training:
    """One training: where it reads and writes, and how. Each kind of training (dpo, value, ...) runs through it.

    Args:
        pretrain: model to start from, a directory or hub name.
        dataset: path of the JSONL to train on.
        save_path: directory of the trained model.
        settings: of the training.
        data: how records become examples.
        overwrite: replace what another command left in `save_path`.

    Raises:
        UserError: settings that cannot be used.
    """

    def __init__(
        self, pretrain: str, dataset: str, save_path: str, settings: TrainingSettings, data: DataSettings,
        overwrite: bool = False,
    ):  # fmt: skip
        self.pretrain, self.dataset, self.save_path = pretrain, dataset, save_path
        self.settings, self.data, self.overwrite = settings, data, overwrite
        self.weights = model_path(pretrain)
        self.dtype = weights_dtype(settings)
        self.args = training_arguments(settings, save_path, evaluate=data.eval_fraction > 0)

    @property
    def is_first(self) -> bool:
        """Whether this is the first process of the training, the one that writes."""
        return self.args.process_index == 0

    def read(self, kind: type) -> list:
        """The records of the dataset. Raises UserError if it cannot be read."""
        return read_records(self.dataset, kind, self.data.max_samples)

    def trainable(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model in training mode, with an adapter if one was asked for."""
        model.train()
        rank = self.settings.lora_rank
        return with_adapter(model, rank, self.settings.lora_alpha, self.settings.seed) if rank else model

    def value_model(self, load: Callable[..., torch.nn.Module] = load_weights) -> torch.nn.Module:
        """The model to start from, with a new value head."""
        return self.trainable(attach_value_head(load(self.weights, self.dtype), self.settings.seed))

    def run(
        self,
        examples: Any,
        counts: dict[str, int],
        settings: dict[str, Any],
        chat: ChatFormat,
        make: Callable[[], tuple[torch.nn.Module, Objective]],
        inputs: Sequence[str | None] = (),
        together: int | None = None,
    ) -> dict | None:
        """Train and save the model. Does nothing if a finished run with the same settings exists in `save_path`.

        Args:
            examples: with `prompts`, `lengths`, `tasks` and `counts`.
            counts: of the examples, for the summary.
            settings: of this kind of training, for the manifest.
            chat: chat format of the model.
            make: returns the model to train and the objective; called only if there is something to do.
            inputs: paths that are read beside the dataset and the model to start from.
            together: see GroupedTrainer; default: `pairs_together`.

        Returns:
            The summary, or None if the run was finished before.

        Raises:
            UserError: an output or settings that cannot be used. Then nothing is overwritten.
        """
        split = split_by_task(examples.tasks, self.data.eval_fraction, self.settings.seed, self.dataset)
        recorded = {"pretrain": self.pretrain, "dataset": self.dataset, **settings}
        recorded |= to_settings(self.data, self.settings)
        if self.settings.keep == "best":
            recorded["save_steps"] = self.settings.save_steps  # decides which weights can be the best
        inputs = [self.dataset, model_input(self.pretrain), *inputs]
        # Names on a hub are settings, not inputs. The first process alone writes.
        run = directory_manifest(self.save_path, recorded, inputs, self.overwrite) if self.is_first else None
        with pushed(run, self.settings.push_to_hub) if run else contextlib.nullcontext():
            if self._is_complete(run):
                if self.is_first:
                    print(f"{self.save_path}: already complete")
                return None
            model, objective = make()
            together = self.settings.pairs_together if together is None else together
            trainer = GroupedTrainer(model, self.args, objective, examples, split, chat, together)
            summary = {**counts, "held_out": len(split[1]), "dropped": dict(examples.counts)}
            summary = self._fit(trainer, run, summary)
            if self.is_first:
                for why, count in examples.counts.items():
                    tqdm.write(f"{count} {why}")
                figures = ", ".join(f"{k} {v:.4g}" for k, v in summary["last"].items() if isinstance(v, int | float))
                print(f"{self.save_path}: {summary['steps']} steps in {summary['seconds']} s; last logged: {figures}")
            return summary

    def _is_complete(self, run: DirectoryRun | None) -> bool:
        """Whether the run was finished before; the first process tells the others."""
        answer = [run is not None and run.complete]
        if self.args.world_size > 1:
            torch.distributed.broadcast_object_list(answer)
        return answer[0]

    def _fit(self, trainer: GroupedTrainer, run: DirectoryRun | None, summary: dict) -> dict:
        """Train from the last checkpoint or from the start, save model and tokenizer, and finish the run.

        An adapter is saved twice: by itself in `adapter/`, and merged into the whole model. Writes
        `training_log.jsonl` (one line per logged step or evaluation). Returns the summary with the last figures.
        """
        save_path, checkpoints = Path(self.save_path), Path(self.save_path) / CHECKPOINTS
        checkpoint = whole_checkpoint(checkpoints)
        if checkpoint:
            log.warning("continuing from %s", checkpoint)
        trainer.since = time.perf_counter()
        result = trainer.train(resume_from_checkpoint=checkpoint)
        if self.settings.lora_rank:
            trainer.save_model(str(save_path / FOLDER))
            if run is not None:
                merge_adapter(self.weights, save_path / FOLDER, save_path, self.dtype)
                (save_path / FOLDER / "training_args.bin").unlink(missing_ok=True)
        else:
            trainer.save_model(str(save_path))
        history = [line for line in trainer.state.log_history if "loss" in line or "eval_loss" in line]
        summary |= {
            "steps": trainer.state.global_step,
            "seconds": round(result.metrics["train_runtime"], 1),
            "train_loss": result.metrics["train_loss"],
            "last": last_figures(history),
        }
        if self.settings.keep == "best":
            summary["best_step"] = trainer.state.best_global_step
        if run is not None:
            trainer.chat.tokenizer.save_pretrained(self.save_path)
            with open(save_path / "training_log.jsonl", "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in history)
            (save_path / "training_args.bin").unlink(missing_ok=True)  # a pickle with paths of this machine
            run.finish(summary)
            shutil.rmtree(checkpoints, ignore_errors=True)
        return summary


def last_figures(history: Sequence[dict]) -> dict[str, Any]:
    """The figures of the last logged step and of the last evaluation."""
    last: dict[str, Any] = {}
    for kind in ("loss", "eval_loss"):
        last |= next((line for line in reversed(history) if kind in line), {})
    return {name: value for name, value in last.items() if name not in ("epoch", "step", "learning_rate")}


def whole_checkpoint(folder: Path) -> str | None:
    """The newest complete checkpoint; incomplete ones are removed."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        try:
            json.loads((path / "trainer_state.json").read_text())  # the Trainer writes it last
            whole.append(path)
        except (OSError, ValueError):
            shutil.rmtree(path)
    return str(max(whole, key=lambda path: int(path.name.split("-")[1]))) if whole else None
