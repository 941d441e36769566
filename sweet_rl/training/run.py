"""A training as a run on disk, from its dataset to the saved model: continued after a kill, and done once."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from tqdm import tqdm

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.projection import unwrapped
from sweet_rl.models.log_probs.value_head import attach_value_head
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import freeze, load_weights, model_path, save_weights
from sweet_rl.runs.errors import FULL_DISK, UserError
from sweet_rl.runs.records import read_records
from sweet_rl.runs.run import Output, open_model
from sweet_rl.training.batches import divided_batch
from sweet_rl.training.checkpoints import CHECKPOINTS, Checkpoints, step_of
from sweet_rl.training.complete import read_inputs, recorded_settings
from sweet_rl.training.deepspeed import Zero
from sweet_rl.training.engine import Engine
from sweet_rl.training.examples import Examples
from sweet_rl.training.log import Log, tracker_names
from sweet_rl.training.loop import Objective, train
from sweet_rl.training.lora import FOLDER, merge_adapter, round_weights, with_adapter
from sweet_rl.training.settings import DataSettings, TrainingSettings


def make_engine(settings: TrainingSettings) -> Engine:
    """The engine that the settings ask for. Raises UserError if its package is not installed."""
    return Engine(settings) if settings.zero_stage is None else Zero(settings)


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
        UserError: Settings that cannot be used, or a package that is not installed.
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
        if settings.lora_rank:
            import peft  # noqa: F401  # if it is missing, before anything is computed
        if settings.load_in_4bit:
            import bitsandbytes  # noqa: F401
        self.pretrain, self.dataset, self.save_path = pretrain, dataset, save_path
        self.settings, self.data, self.overwrite = settings, data, overwrite
        self.weights = model_path(pretrain)
        self.trackers = tracker_names(settings.report_to)
        self.engine = make_engine(settings)
        self.accelerator, self.dtype = self.engine.accelerator, self.engine.dtype
        divided_batch(settings, self.accelerator.num_processes)
        self.checkpoints = Checkpoints(Path(save_path) / CHECKPOINTS, settings, self.engine)
        self.folder: Output | None = None
        gpus = torch.cuda.device_count()
        if gpus > 1 and self.accelerator.num_processes == 1:
            print(f"one of {gpus} GPUs is used; torchrun --nproc_per_node {gpus} uses all of them")

    @property
    def is_first(self) -> bool:
        """Whether this is the first process of the training, the one that writes."""
        return self.accelerator.is_main_process

    def read(self, kind: type) -> list:
        """The records of the dataset. Raises UserError if it cannot be read."""
        return read_records(self.dataset, kind, self.data.max_samples)

    def trainable(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model in training mode, with dropout off as in its reference, and with an adapter if asked for."""
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        how = self.settings
        if not how.lora_rank:
            return model
        lora = how.lora_rank, how.lora_alpha, how.seed, how.target_modules, how.lora_dropout
        adapted: Any = with_adapter(model, *lora, autocast=how.autocast)
        if self.is_first:
            adapted.print_trainable_parameters()
        return adapted

    def share_prompts(self, model: torch.nn.Module) -> bool:
        """Switch the model, or the reference, to the attention of this training; see `attention.share_prompts`."""
        return share_prompts(model, self.settings.attention, self.accelerator.device)

    def load_weights(self, path: str) -> torch.nn.Module:
        """The causal language model at `path` in the precision of this training."""
        return load_weights(path, self.dtype, self.settings.load_in_4bit)

    def load_frozen(self, path: str) -> torch.nn.Module:
        """The model at `path`, whole in this process, not to be trained."""
        with self.engine.whole_weights():
            return freeze(self.load_weights(path), self.accelerator.device)

    def with_value_head(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model with a new value head, to be trained."""
        dtype = self.dtype if self.settings.zero_stage is not None else None
        return self.trainable(attach_value_head(model, self.settings.seed, dtype))

    @contextlib.contextmanager
    def opened(self, settings: dict[str, Any], inputs: Sequence[str | None] = ()) -> Iterator[bool]:
        """Open the folder of the model, before anything is read; yield whether there is something to do.

        With `overwrite` it is opened, and emptied, in `begin`: an old model stays until the new inputs are checked.
        `settings` are those of this kind of training, `inputs` paths that are read beside the dataset and the model to
        start from. Raises UserError if output or settings cannot be used, or for a full disk.
        """
        recorded = recorded_settings(self.pretrain, self.dataset, settings, self.data, self.settings)
        inputs = read_inputs(self.pretrain, self.dataset, inputs)
        self._open_model = partial(open_model, self.save_path, recorded, inputs, self.overwrite)
        try:
            if not self.overwrite:
                self._open()
            (complete,) = broadcast_object_list([self.folder is not None and self.folder.finished])
            if complete and self.is_first:
                print(f"{self.save_path}: already complete")
            yield not complete
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
            raise UserError(
                f"{self.save_path}: the disk is full. The last checkpoint stays. Make room on this disk, then give the "
                "same command again: the training goes on from there."
            ) from error
        finally:
            if self.folder is not None:
                self.folder.close()

    def _open(self) -> None:
        """Open the folder in the first process, which alone writes, and print where a killed training goes on."""
        if self.is_first:
            self.folder = self._open_model()
        checkpoint = self.checkpoints.newest()
        if self.folder is not None and self.folder.resuming:
            where = checkpoint or "no checkpoint had been written"
            print(f"{self.save_path}: going on from step {step_of(checkpoint) if checkpoint else 0} ({where})")

    def begin(self) -> None:
        """Remove what `overwrite` replaces, now that the inputs are checked."""
        if self.overwrite:
            self._open()

    def fit(
        self,
        model: torch.nn.Module,
        objective: Objective,
        examples: Examples,
        counts: dict[str, int],
        chat: ChatFormat,
        together: int | None = None,
    ) -> dict[str, Any]:
        """Train the model, save it and return the summary. Called after `begin`.

        `counts` are numbers of examples for the summary; at most `together` examples with the same prompt stay together
        (default: `max_pairs_per_prompt`).
        """
        log = Log(self.accelerator, self.trackers, self.save_path)
        began = time.perf_counter()
        together = self.settings.max_pairs_per_prompt if together is None else together
        steps = train(model, objective, examples, self.engine, log, self.checkpoints, together)
        summary: dict[str, Any] = {**counts, "dropped": dict(examples.counts)}
        summary |= {"steps": steps, "seconds": round(time.perf_counter() - began, 1)}
        hidden = ("epoch", "step", "learning_rate")
        summary["last"] = {name: value for name, value in log.history[-1].items() if name not in hidden}
        self._save(model, chat)
        if self.folder is not None:
            lines = "".join(json.dumps(line) + "\n" for line in log.history)
            (Path(self.save_path) / "training_log.jsonl").write_text(lines, encoding="utf-8")
            self.folder.finish(summary)
            shutil.rmtree(self.checkpoints.folder, ignore_errors=True)
            for why, count in examples.counts.items():
                tqdm.write(f"{count} {why}")
            figures = ", ".join(f"{k} {v:.4g}" for k, v in summary["last"].items() if isinstance(v, int | float))
            print(f"{self.save_path}: {steps} steps in {summary['seconds']} s; last logged: {figures}")
        return summary

    def _save(self, model: torch.nn.Module, chat: ChatFormat) -> None:
        """Save model and tokenizer, in bfloat16 if it was computed in it. A value head stays in float32.

        An adapter is saved twice, in `adapter/` and merged into the whole model.
        """
        state = self.engine.whole_state()
        if not self.is_first:
            return
        if self.settings.lora_rank:
            adapter = Path(self.save_path) / FOLDER
            unwrapped(model).save_pretrained(str(adapter), state_dict=state)
            with self.engine.whole_weights():
                merge_adapter(self.weights, adapter, self.save_path, self.dtype)
        else:
            if self.settings.autocast:
                round_weights(unwrapped(model), torch.bfloat16)
            save_weights(unwrapped(model), self.save_path, state)
        chat.tokenizer.save_pretrained(self.save_path)
