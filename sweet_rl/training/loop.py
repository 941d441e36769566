"""A training from its dataset to the saved model: continued after a kill, reported, and done once."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from sweet_rl.models.log_probs.shared_prefix import share_prompts
from sweet_rl.models.log_probs.value_head import attach_value_head
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_weights, model_input, model_path
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.directory import DirectoryRun, directory_manifest
from sweet_rl.runs.records import read_records
from sweet_rl.training.arguments import CHECKPOINTS, training_arguments, weights_dtype
from sweet_rl.training.checkpoints import (
    CheckpointSchedule,
    Continued,
    check_files,
    full_disk_named,
    last_checkpoint,
    processes_of,
)
from sweet_rl.training.deepspeed import SeparateSteps, load_universal, make_universal, whole_weights
from sweet_rl.training.examples import split_by_task
from sweet_rl.training.lora import FOLDER, merge_adapter, with_adapter
from sweet_rl.training.settings import DataSettings, TrainingSettings
from sweet_rl.training.trainer import GroupedTrainer, Objective


class Training:
    """One training: where it reads and writes, and how. Each kind of training (dpo, value, ...) runs through it.

    Args:
        pretrain: Model to start from, a directory or hub name.
        dataset: Path of the JSONL to train on.
        save_path: Directory of the trained model.
        settings: Settings of the training.
        data: How records become examples.
        overwrite: Replace what another command left in `save_path`.

    Raises:
        UserError: Settings that cannot be used.
    """

    def __init__(
        self,
        pretrain: str,
        dataset: str,
        save_path: str,
        settings: TrainingSettings,
        data: DataSettings,
        overwrite: bool = False,
    ):
        self.pretrain, self.dataset, self.save_path = pretrain, dataset, save_path
        self.settings, self.data, self.overwrite = settings, data, overwrite
        self.weights = model_path(pretrain)
        self.dtype = weights_dtype(settings)
        self.args = training_arguments(settings, save_path, evaluate=data.eval_fraction > 0)
        self.checkpoints = Path(save_path) / CHECKPOINTS

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
        how = self.settings
        if not how.lora_rank:
            return model
        lora = how.lora_rank, how.lora_alpha, how.seed, how.target_modules, how.lora_dropout
        return with_adapter(model, *lora, autocast=how.autocast)

    def share_prompts(self, model: torch.nn.Module) -> bool:
        """Switch the model, or the reference, to the attention of this training; see `shared_prefix.share_prompts`."""
        how, device = self.settings, self.args.device
        return share_prompts(model, how.attention, device, torch.bfloat16 if how.bf16 else self.dtype, backward=True)

    def load_weights(self, path: str) -> torch.nn.Module:
        """The causal language model at `path` in the precision of this training."""
        return load_weights(path, self.dtype, self.settings.load_in_4bit)

    def value_model(self, load: Callable[[str], torch.nn.Module] | None = None) -> torch.nn.Module:
        """The model to start from (by `load`, default: `load_weights`), with a new value head."""
        model = (load or self.load_weights)(self.weights)
        dtype = self.dtype if self.args.deepspeed else None
        return self.trainable(attach_value_head(model, self.settings.seed, dtype))

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
            examples: Examples with `prompts`, `lengths`, `tasks` and `counts`.
            counts: Numbers of examples, for the summary.
            settings: Settings of this kind of training, for the manifest.
            chat: Chat format of the model.
            make: Function that returns the model to train and the objective; called only if there is something to do.
            inputs: Paths that are read beside the dataset and the model to start from.
            together: Largest number of examples with the same prompt that stay together; default:
                `max_pairs_per_prompt`.

        Returns:
            The summary, or None if the run was finished before.

        Raises:
            UserError: an output or settings that cannot be used (then nothing is overwritten), or a full disk.
        """
        split = split_by_task(examples.tasks, self.data.eval_fraction, self.settings.seed, self.dataset)
        recorded = {"pretrain": self.pretrain, "dataset": self.dataset, **settings}
        recorded |= to_settings(self.data, self.settings)
        recorded["learning_rate"] = self.settings.peak_learning_rate
        if self.settings.keep == "best":
            recorded["save_steps"] = self.settings.save_steps  # decides which weights can be the best
        inputs = [self.dataset, model_input(self.pretrain), *inputs]
        # Names on a hub are settings, not inputs. The first process alone writes.
        run = directory_manifest(self.save_path, recorded, inputs, self.overwrite) if self.is_first else None
        with run or contextlib.nullcontext(), full_disk_named(self.save_path):
            if self._from_first(run is not None and run.complete):
                if self.is_first:
                    print(f"{self.save_path}: already complete")
                return None
            checkpoint = self._from_first(last_checkpoint(self.checkpoints) if run else None)
            with Continued(checkpoint):
                self._announce(checkpoint, run)
            if self.settings.learning_rate is None and self.is_first:
                print(f"--learning_rate: {self.settings.peak_learning_rate:g}, the default")
            if self.is_first and not torch.cuda.is_available():
                print(f"CPU threads: {torch.get_num_threads()} (OMP_NUM_THREADS sets their number)")
            model, objective = make()
            together = self.settings.max_pairs_per_prompt if together is None else together
            trainer = GroupedTrainer(model, self.args, objective, examples, split, chat, together)
            trainer.add_callback(
                CheckpointSchedule(
                    self.settings.save_steps,
                    self.settings.save_minutes,
                    self._from_first,
                    self.settings.save_epochs or self.settings.keep == "best",
                )
            )
            if self.args.deepspeed:
                trainer.add_callback(SeparateSteps)
            summary: dict[str, Any] = {**counts, "held_out": len(split[1]), "dropped": dict(examples.counts)}
            summary = self._fit(trainer, run, checkpoint, summary)
            if self.is_first:
                for why, count in examples.counts.items():
                    tqdm.write(f"{count} {why}")
                figures = ", ".join(f"{k} {v:.4g}" for k, v in summary["last"].items() if isinstance(v, int | float))
                print(f"{self.save_path}: {summary['steps']} steps in {summary['seconds']} s; last logged: {figures}")
            return summary

    def _from_first(self, value: Any) -> Any:
        """The value that the first process has; called in all processes."""
        values = [value]
        if self.args.world_size > 1:
            torch.distributed.broadcast_object_list(values)
        return values[0]

    def _announce(self, checkpoint: str | None, run: DirectoryRun | None) -> None:
        """Print where a training goes on that was started before, check the checkpoint and fit it to the processes."""
        if checkpoint and run:
            check_files(checkpoint)
        if checkpoint and self.args.deepspeed and processes_of(checkpoint) != self.args.world_size:
            if run:
                make_universal(checkpoint)
            self._from_first(None)  # the others wait for it
            load_universal(self.args)
        if run and run.resuming:
            step = Path(checkpoint).name.split("-")[1] if checkpoint else 0
            where = checkpoint or "no checkpoint had been written"
            print(f"{self.save_path}: going on from step {step} ({where})")

    def _fit(self, trainer: GroupedTrainer, run: DirectoryRun | None, checkpoint: str | None, summary: dict) -> dict:
        """Train from a checkpoint or from the start, save model and tokenizer, and finish the run.

        An adapter is saved twice: by itself in `adapter/`, and merged into the whole model. Writes
        `training_log.jsonl` (one line per logged step or evaluation). The checkpoint of the last step is removed at the
        very end, so that the same command finishes a run that failed while it saved. Returns the summary with the last
        figures.
        """
        save_path = Path(self.save_path)
        trainer.since = time.perf_counter()
        with Continued(checkpoint) as continued:
            trainer.add_callback(continued)
            result = trainer.train(resume_from_checkpoint=checkpoint)
        if trainer.unchecked:
            trainer.check_model()
        if self.settings.lora_rank:
            trainer.save_model(str(save_path / FOLDER))
            if run is not None:
                with whole_weights(self.args):
                    merge_adapter(self.weights, save_path / FOLDER, save_path, self.dtype)
                (save_path / FOLDER / "training_args.bin").unlink(missing_ok=True)
        else:
            trainer.save_model(str(save_path))
        history = [line for line in trainer.state.log_history if "loss" in line or "eval_loss" in line]
        summary |= {
            "steps": trainer.state.global_step,
            "seconds": round(result.metrics["train_runtime"], 1),
            "train_loss": mean_loss(history),
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
            shutil.rmtree(self.checkpoints, ignore_errors=True)
        return summary


def mean_loss(history: Sequence[dict]) -> float:
    """Mean of the logged losses; each is that of the steps since the line before."""
    lines = [line for line in history if "loss" in line]
    return float(np.average([line["loss"] for line in lines], weights=np.diff([0, *(line["step"] for line in lines)])))


def last_figures(history: Sequence[dict]) -> dict[str, Any]:
    """The figures of the last logged step and of the last evaluation."""
    last: dict[str, Any] = {}
    for kind in ("loss", "eval_loss"):
        last |= next((line for line in reversed(history) if kind in line), {})
    return {name: value for name, value in last.items() if name not in ("epoch", "step", "learning_rate")}
