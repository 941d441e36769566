"""`transformers.Trainer` for examples that share prompts: batches, sums over items, evaluation and log."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments
from transformers.integrations import TensorBoardCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback, TrainerCallback, TrainerControl

from sweet_rl.models.log_probs.logps import completion_logps
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.progress import progress_bar
from sweet_rl.training.batches import FILLER, Order, ProcessBatches
from sweet_rl.training.checkpoints import mark_complete
from sweet_rl.training.finite import check_figures, check_weights
from sweet_rl.training.first_loss import check_first, has_dropout
from sweet_rl.training.order import EpochOrder, prompt_groups


@dataclass(frozen=True)
class Objective:
    """What a training optimises.

    Attributes:
        collate: Function from the indices of examples to their batch. Its entry `items` is the number of things over
            which the loss is a mean: pairs, dialogues or tokens.
        losses: Function of (outputs, batch) that returns the sum of the items' losses, and sums over the items of
            figures for the log.
        outputs: Function of (model, batch) that returns what the losses are computed from: log-probs of the trained
            tokens, or values.
        first_loss: Mean of the figure `preference_loss` in the first step if the trained model is then its reference,
            whose log-probs are the batch's `reference`; else None.
    """

    collate: Callable[[list[int]], dict[str, Any]]
    losses: Callable[[Tensor, dict[str, Any]], tuple[Tensor, dict[str, Tensor]]]
    outputs: Callable[[torch.nn.Module, dict[str, Any]], Tensor] = completion_logps
    first_loss: float | None = None


class Examples(Protocol):
    """Examples by index: the prompt and the length in tokens of each."""

    prompts: Sequence[bytes]
    lengths: Sequence[int]


class GroupedTrainer(Trainer):
    """A Trainer whose examples are indices, ordered by `EpochOrder`, and whose losses are sums over items.

    A step's loss is the mean over all its items, however they are divided into micro-batches and processes.

    Args:
        model: Model to train.
        args: Arguments of the Trainer.
        objective: What is optimised.
        examples: All examples.
        split: Indices of the examples to train on and of those to evaluate on, int64 both.
        chat: Chat format of the model.
        together: Largest number of examples with the same prompt that stay together.
    """

    control: TrainerControl

    def __init__(
        self,
        model: torch.nn.Module,
        args: TrainingArguments,
        objective: Objective,
        examples: Examples,
        split: tuple[np.ndarray, np.ndarray],
        chat: ChatFormat,
        together: int = 1,
    ):
        train, evaluation = split
        prompts, lengths = examples.prompts, examples.lengths
        groups = prompt_groups([prompts[i] for i in train], together)
        self.groups = [train[group] for group in groups]
        self.costs = [max(lengths[i] for i in group) for group in self.groups]
        self.evaluation = np.asarray(sorted(evaluation.tolist(), key=lambda i: (prompts[i], i)), dtype=np.int64)
        self.objective: Objective = objective
        self.chat = chat
        self.indices = _Indices(len(prompts))
        self.sums: dict[str, Tensor] = {}
        self.first: Tensor | None = None  # sums over the first step for check_first
        self.step_loss: Tensor | float = 0.0  # of this process since the last optimiser step
        self.grad_norm: Tensor | float | None = None
        self.last_batch: dict[str, Any] = {}
        self.unchecked = False  # whether a step has moved weights that `check_model` has not seen
        self.since = time.perf_counter()
        # No processing_class: the Trainer would write the tokenizer's EOS over those of the generation config.
        super().__init__(
            model=model,
            args=args,
            train_dataset=self.indices,
            data_collator=self._collate,
            eval_dataset=_Indices(len(evaluation)) if len(evaluation) else None,
        )
        self.loss_is_scaled_for_ga = True
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, TensorBoardCallback) and args.output_dir:  # the checkpoints' folder does not stay
                callback.logging_dir = str(Path(args.output_dir).parent / "tensorboard")
        if args.disable_tqdm:
            self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        self.add_callback(_Progress)
        self.add_callback(_FiniteStep(self))
        if objective.first_loss is not None:
            self.add_callback(_FirstStep(self))

    def _get_train_sampler(self, train_dataset=None) -> EpochOrder:
        return EpochOrder(
            self.groups, self.costs, self._step_size(), self.args.seed, epoch=lambda: int(self.state.epoch or 0)
        )

    def get_train_dataloader(self) -> DataLoader:
        """The micro-batches of this process. Not prepared by accelerate, which would repeat examples in the last."""
        batches = self._batches(self._get_train_sampler(), self._step_size())
        pin = self.args.dataloader_pin_memory
        return DataLoader(self.indices, batch_sampler=batches, collate_fn=self._collate, pin_memory=pin)

    def _step_size(self) -> int:
        """Examples per optimiser step, over all processes."""
        args = self.args
        return args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size

    def _batches(self, order: Order, step_size: int) -> ProcessBatches:
        args = self.args
        return ProcessBatches(order, step_size, args.per_device_train_batch_size, args.process_index, args.world_size)

    def _collate(self, indices: list[int]) -> dict[str, Any]:
        if indices[0] != FILLER:
            return self.objective.collate(indices)
        return self.objective.collate(indices[1:]) | {"items": 0, "counted": 0.0}

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The batch on the device. Under DeepSpeed `model_inputs` get the dtype of the model.

        The Trainer would cast every float of the batch, the reference log-probs too.
        """
        device = self.args.device
        return {
            name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else self._prepare_input(value)
            for name, value in inputs.items()
        }

    def _get_num_items_in_batch(self, batch_samples: list, device: torch.device) -> Tensor:
        count = torch.tensor(float(sum(batch["items"] for batch in batch_samples)), device=device)
        return self.accelerator.gather(count).sum() if self.args.world_size > 1 else count

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, figures, outputs = self._losses(model, inputs)
        for name, value in figures.items():
            self.sums[name] = self.sums.get(name, 0) + value.detach()
        if self.first is not None:
            distance = (outputs.detach() - inputs["reference"]).abs().double() * inputs.get("counted", 1.0)
            tokens = distance.new_tensor(distance.numel())
            parts = figures["preference_loss"], figures["items"], distance.sum(), tokens
            self.first += torch.stack([part.detach().double() for part in parts])
        loss = loss * self.args.world_size / num_items_in_batch  # gradients are averaged over processes
        self.step_loss = self.step_loss + loss.detach()
        self.last_batch = inputs
        return loss

    def _get_grad_norm(self, model, grad_norm=None):
        self.grad_norm = super()._get_grad_norm(model, grad_norm)
        return self.grad_norm

    def check_step(self) -> None:
        """Raise UserError if loss or gradient norm of a step are not finite, before it moves a weight."""
        norm = torch.as_tensor(0.0 if self.grad_norm is None else self.grad_norm)
        norm = torch.where(norm < 0, torch.nan, norm)  # DeepSpeed's word for NaN and infinity is -1
        self._check_figures(self.state.global_step + 1, {"loss": self.step_loss, "gradient norm": norm})
        self.step_loss = 0.0
        self.unchecked = True

    def _check_figures(self, step: int, figures: dict[str, Tensor | float]) -> None:
        """Raise UserError in all processes if a figure is not finite in one of them."""
        values = torch.stack([torch.as_tensor(value, device=self.args.device).double() for value in figures.values()])
        if self.args.world_size > 1:
            values = self.accelerator.gather(values[None]).mean(0)
        check_figures(step, dict(zip(figures, values.tolist(), strict=True)))

    def check_model(self) -> None:
        """Raise UserError if the model is not to be saved: a weight, or the loss of the last batch, is not finite."""
        step, model = self.state.global_step, self.model
        if model is not None:
            check_weights(step, model)
        with self._evaluating(), torch.no_grad():
            loss, _, _ = self._losses(self.model_wrapped, self.last_batch)
        self._check_figures(step, {"loss after it": loss})
        self.unchecked = False

    def check_first_step(self) -> None:
        """Check the first step's loss before it moves a weight. Raises UserError in all processes."""
        expected = self.objective.first_loss
        if self.first is not None and expected is not None:
            sums = self.accelerator.gather(self.first[None]).sum(0) if self.args.world_size > 1 else self.first
            self.first = None
            loss, items, distance, tokens = sums.tolist()
            check_first(loss / items, expected, distance / tokens, not self.args.bf16)

    def _losses(self, model: torch.nn.Module, batch: dict) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """The sum of the items' losses; sums for the log, with the numbers of items and tokens; the model's outputs."""
        outputs = self.objective.outputs(model, batch)
        loss, figures = self.objective.losses(outputs, batch)
        figures = figures | {
            "items": torch.tensor(float(batch["items"]), device=loss.device),
            "tokens": (batch["blocks"] >= 0).sum(),
        }
        counted = batch.get("counted", 1.0)
        return counted * loss, {name: counted * value for name, value in figures.items()}, outputs

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix: str = "eval") -> dict[str, float]:
        """The means of loss and figures over the held-out examples, each computed once; logged as `eval_...`."""
        began = time.perf_counter()
        sums: dict[str, Tensor] = {}
        size = self.args.per_device_train_batch_size * self.args.world_size
        with self._evaluating(), torch.no_grad():
            for indices in self._batches(self.evaluation.tolist(), size):
                batch = self._prepare_inputs(self._collate(indices))
                loss, figures, _ = self._losses(self.model_wrapped, batch)
                for name, value in (figures | {"loss": loss}).items():
                    sums[name] = sums.get(name, 0) + value
        sums.pop("tokens")
        means = {f"{metric_key_prefix}_{name}": value for name, value in self._means(sums).items()}
        check_figures(self.state.global_step, {"loss of the held-out examples": means[f"{metric_key_prefix}_loss"]})
        self.since += time.perf_counter() - began
        self.log(means)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, means)
        return means

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        """The model is in evaluation mode inside."""
        model = self.model_wrapped
        training = model.training
        model.eval()
        try:
            yield
        finally:
            model.train(training)

    def _means(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Totals over all processes, divided by the number of items; "tokens" is not divided."""
        names = sorted(sums)
        totals = torch.stack([torch.as_tensor(sums[name], device=self.args.device).double() for name in names])
        if self.args.world_size > 1:
            totals = self.accelerator.gather(totals[None]).sum(0)
        found = dict(zip(names, totals.tolist(), strict=True))
        items = found.pop("items")
        return {name: total / items if name != "tokens" else total for name, total in found.items()}

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log a line, with the means over the items since the last line of the figures of `losses`, the tokens computed
        per second and the peak memory of the first process in GB."""
        if self.sums and "loss" in logs:
            means = self._means(self.sums)
            now = time.perf_counter()
            logs |= {"tokens_per_second": means.pop("tokens") / (now - self.since), "memory_gb": peak_memory_gb()}
            logs |= means
            self.sums, self.since = {}, now
        super().log(logs, start_time)

    def _save_checkpoint(self, model, trial):
        self.check_model()
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            best = self.state.best_model_checkpoint
            mark_complete(self.args.output_dir, self.state.global_step, best, self.args.world_size)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Without the alarm about a tied weight, which a checkpoint has under its other name."""
        tied = getattr(self.model, "all_tied_weights_keys", {})
        super()._issue_warnings_after_load(
            load_result._replace(missing_keys=[key for key in load_result.missing_keys if key not in tied])
        )

    def floating_point_ops(self, inputs) -> int:
        return 0  # the Trainer's formula does not hold for shared prompts


def peak_memory_gb() -> float:
    """Peak memory in 10^9 bytes: of the GPU if there is one, else of the process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e9 if sys.platform == "darwin" else peak * 1024 / 1e9


class _Indices(torch.utils.data.Dataset):
    def __init__(self, length: int):
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


class _Progress(ProgressCallback):
    """A progress bar with the last figures beside it, instead of a printed dictionary every few steps.

    The last step is logged too, so that a short training has figures.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            done, steps = state.global_step, state.max_steps
            self.training_bar = progress_bar(total=steps, initial=done, desc="steps", unit="step")
        self.current_step = state.global_step

    def on_step_end(self, args, state, control, **kwargs):
        super().on_step_end(args, state, control, **kwargs)
        control.should_log = control.should_log or state.global_step >= state.max_steps

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and self.training_bar is not None and "loss" in (logs or {}):
            shown = ("loss", "margin", "accuracy")
            text = ", ".join(f"{name} {logs[name]:.4g}" for name in shown if name in logs)
            self.training_bar.set_postfix_str(text, refresh=False)


class _FiniteStep(TrainerCallback):
    """Has the figures of each step checked before it moves a weight."""

    def __init__(self, trainer: GroupedTrainer):
        self.trainer = trainer

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.trainer.check_step()


class _FirstStep(TrainerCallback):
    """Has the first step checked before it moves a weight."""

    def __init__(self, trainer: GroupedTrainer):
        self.trainer = trainer

    def on_train_begin(self, args, state, control, **kwargs):
        trainer = self.trainer
        if trainer.objective.first_loss is not None and state.global_step == 0 and not has_dropout(trainer.model):
            trainer.first = torch.zeros(4, dtype=torch.float64, device=args.device)

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.trainer.check_first_step()
