"""The training loop: batches, loss, backward, checks, step, log, evaluation, checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.models.log_probs.logps import completion_logps
from sweet_rl.models.log_probs.projection import unwrapped
from sweet_rl.runs.errors import UserError
from sweet_rl.training.batches import FILLER, divided_batch, step_batches
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.engine import Engine
from sweet_rl.training.examples import Examples
from sweet_rl.training.log import Log, add_to, means_over_items, totals
from sweet_rl.training.optimizer import learning_rates
from sweet_rl.training.order import epoch_steps, prompt_groups

TOLERANCE = 1e-4  # of the first mean loss, in float32; relative to a loss above 1 (IPO)
BF16_DISTANCE = 0.2  # mean |log-prob - reference log-prob| per token: bfloat16 rounds a token by its place in a batch


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
        first_loss: Mean `preference_loss` of a model that is its reference, if the trained model begins as that; it is
            then checked in the first step.
    """

    collate: Callable[[list[int]], dict[str, Any]]
    losses: Callable[[Tensor, dict[str, Any]], tuple[Tensor, dict[str, Tensor]]]
    outputs: Callable[[torch.nn.Module, dict[str, Any]], Tensor] = completion_logps
    first_loss: float | None = None


def train(
    model: torch.nn.Module,
    objective: Objective,
    examples: Examples,
    split: tuple[np.ndarray, np.ndarray],
    engine: Engine,
    log: Log,
    checkpoints: Checkpoints,
    together: int = 1,
) -> int:
    """Train a model, from the checkpoint that is continued or from the start.

    A step's loss is the mean over its items, however they are divided into micro-batches and processes. Before a step
    moves a weight, its loss and its gradients are checked to be finite, and the first loss to be that of equal models;
    under ZeRO the gradients are checked right after the step.

    Args:
        model: Model to train.
        objective: What is optimised.
        examples: All examples.
        split: Indices of the examples to train on and of those to evaluate on, int64 both.
        engine: How the processes hold the model; its settings are those of the training.
        log: Log of the training.
        checkpoints: Checkpoints of the training.
        together: Largest number of examples with the same prompt that stay together.

    Returns:
        Number of steps of the training.

    Raises:
        UserError: A loss or gradient norm that is not finite, or a first loss that is not that of equal models.
    """
    settings, accelerator = engine.settings, engine.accelerator
    trained_on, held_out = split
    groups, lengths = prompt_groups(examples, trained_on, together), examples.lengths
    steps_in_epoch = math.ceil(len(trained_on) / settings.train_batch_size)
    epochs = settings.max_epochs or (math.inf if settings.max_steps else 1)
    steps = int(min(settings.max_steps or math.inf, steps_in_epoch * epochs))
    learning_rate = learning_rates(settings, steps)
    micro_size, _ = divided_batch(settings, accelerator.num_processes)
    share = {"micro_size": micro_size, "process": accelerator.process_index, "processes": accelerator.num_processes}

    if settings.gradient_checkpointing:
        checkpoint_activations(model)
    first_loss = None if has_dropout(model) else objective.first_loss
    model = engine.prepare(model)
    step = checkpoints.resume(log)
    log.begin(step, steps)

    for epoch in range(step // steps_in_epoch, math.ceil(steps / steps_in_epoch)):
        order = epoch_steps(groups, lengths, settings.train_batch_size, settings.seed, epoch)
        rest = order[step % steps_in_epoch : steps - epoch * steps_in_epoch]
        for micro_batches in step_batches(rest, **share):
            # Dropout draws the same numbers in a training that is continued.
            torch.manual_seed(int(np.random.SeedSequence([settings.seed, step, share["process"]]).generate_state(1)[0]))
            batches = [collated(objective, indices) for indices in micro_batches]
            items = engine.total(sum(batch["items"] for batch in batches))
            local_sums: dict[str, Tensor] = {}
            for number, batch in enumerate(batches, 1):
                with engine.micro_batch(last=number == len(batches)):
                    batch = engine.on_device(batch)
                    loss, figures, outputs = batch_losses(model, objective, batch, engine)
                    loss = loss * accelerator.num_processes / items  # gradients are averaged over processes
                    engine.backward(loss)
                add_to(local_sums, figures | {"loss": loss})
                if step == 0 and first_loss is not None:
                    add_to(local_sums, distance_from_reference(outputs, batch))

            norm = float(engine.clip())
            sums = totals(local_sums, accelerator)
            loss = sums.pop("loss") / accelerator.num_processes
            check_finite(step + 1, {"loss": loss, "gradient norm": norm})
            if step == 0 and first_loss is not None:
                check_first_loss(sums, first_loss, settings.bf16)
            rate = learning_rate(step)
            norm = float(engine.step(rate))
            step += 1
            check_finite(step, {"gradient norm": norm})  # DeepSpeed clips, and knows the norm, only in its step

            epochs = step / steps_in_epoch
            due = step % settings.logging_steps == 0 or step == steps
            log.step(step, loss, sums, due, grad_norm=norm, learning_rate=rate, epoch=epochs)
            evaluate_now, save_now = checkpoints.due(step, step % steps_in_epoch == 0 or step == steps)
            if evaluate_now and len(held_out):
                began = time.perf_counter()
                means = evaluate(model, objective, examples, held_out, step, engine)
                log.evaluation(step, means, epochs, time.perf_counter() - began)
                checkpoints.evaluated(step, means["loss"])
            if save_now:
                checkpoints.save(step, log)
    log.close()
    return steps


def checkpoint_activations(model: Any) -> None:
    """Have the activations of each layer computed again in the backward pass."""
    # transformers 5.23 renamed it, and warns about the old name.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def collated(objective: Objective, indices: list[int]) -> dict[str, Any]:
    """The batch of a micro-batch. Its `counted` is 0 if it only fills up, else 1."""
    if indices[0] == FILLER:
        return objective.collate(indices[1:]) | {"items": 0, "counted": 0.0}
    return objective.collate(indices) | {"counted": 1.0}


def batch_losses(
    model: torch.nn.Module, objective: Objective, batch: dict[str, Any], engine: Engine
) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """The sum of the items' losses; sums for the log, with the numbers of items and tokens; the model's outputs."""
    with engine.autocast():
        outputs = objective.outputs(model, batch)
    loss, figures = objective.losses(outputs, batch)
    figures = figures | {
        "items": torch.tensor(float(batch["items"]), device=loss.device),
        "tokens": (batch["blocks"] >= 0).sum(),
    }
    counted = batch["counted"]
    return counted * loss, {name: counted * value for name, value in figures.items()}, outputs


@torch.no_grad()
def evaluate(
    model: torch.nn.Module, objective: Objective, examples: Examples, held_out: np.ndarray, step: int, engine: Engine
) -> dict[str, float]:
    """The means of loss and figures over the held-out examples, each computed once.

    Raises UserError naming the step if the loss is not finite.
    """
    accelerator = engine.accelerator
    processes = accelerator.num_processes
    micro_size, _ = divided_batch(engine.settings, processes)
    prompts = examples.prompts
    by_prompt = sorted(held_out.tolist(), key=lambda i: (prompts[i], i))
    together = micro_size * processes
    steps = [by_prompt[start : start + together] for start in range(0, len(by_prompt), together)]
    sums: dict[str, Tensor] = {}
    model.eval()
    for (indices,) in step_batches(steps, micro_size, accelerator.process_index, processes):
        batch = engine.on_device(collated(objective, indices))
        loss, figures, _ = batch_losses(model, objective, batch, engine)
        add_to(sums, figures | {"loss": loss})
    model.train()
    del sums["tokens"]
    means = means_over_items(totals(sums, accelerator))
    check_finite(step, {"loss of the held-out examples": means["loss"]})
    return means


def check_finite(step: int, figures: Mapping[str, float]) -> None:
    """Raise UserError naming the step and the figures of it that are NaN or infinite."""
    found = [f"the {name} is {value}" for name, value in figures.items() if not math.isfinite(value)]
    if found:
        raise UserError(
            f"step {step}: {' and '.join(found)}. Training is stopped, and nothing of this step is saved; the last "
            "checkpoint stays. The same command would come to this step again: give a lower learning rate, and "
            "--overwrite or another path."
        )


def distance_from_reference(outputs: Tensor, batch: Mapping[str, Any]) -> dict[str, Tensor]:
    """Sum of |log-prob - reference log-prob| over the trained tokens of a batch, and their number."""
    logps = outputs.detach() if outputs.ndim == 1 else outputs.detach()[:, 0]
    distance = (logps - batch["reference"]).abs() * batch["counted"]
    return {"distance": distance.sum(), "scored": distance.new_tensor(distance.numel() * batch["counted"])}


def check_first_loss(sums: dict[str, float], expected: float, bf16: bool) -> None:
    """Raise UserError if in the first step the trained model is not its reference; takes the distance out of the sums.

    In bfloat16 rounding may move the loss of long texts by more than TOLERANCE: there the distance per token decides.
    """
    loss, distance = sums["preference_loss"] / sums["items"], sums.pop("distance") / sums.pop("scored")
    if abs(loss - expected) <= TOLERANCE * max(1, expected) or (bf16 and distance <= BF16_DISTANCE):
        return
    raise UserError(
        f"the preference loss of the first step is {loss:.6f} instead of {expected:.6f}: the model that is trained and "
        f"its reference are the same, but their log-probs differ by {distance:.2g} per token. Training is stopped, "
        "because every later loss would be wrong too. Give --overwrite to compute the reference again; if the error "
        "stays, this model computes something else in training than in evaluation and cannot be trained here."
    )


def has_dropout(model: torch.nn.Module) -> bool:
    """Whether the model's outputs are random in training. A new adapter's dropout is not: its output is 0."""
    modules = (
        module for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout) and "lora_" not in name
    )
    settings = unwrapped(model).config.to_dict().items()
    return any(module.p > 0 for module in modules) or any(
        name.endswith(("dropout", "pdrop", "dropout_prob")) and isinstance(value, float) and value > 0
        for name, value in settings
    )
