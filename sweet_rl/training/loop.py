"""The training loop: batches, loss, backward, checks, step, log, checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.models.log_probs.logps import completion_logps
from sweet_rl.runs.errors import UserError
from sweet_rl.training.batches import FILLER, divided_batch, epoch_steps, prompt_groups, step_batches
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.engine import Engine
from sweet_rl.training.examples import Examples
from sweet_rl.training.log import Log, add_to, means_over_items
from sweet_rl.training.optimizer import learning_rates

SAME_MODEL = {False: 1e-4, True: 0.2}  # by bf16, in which a text has other numbers at another place of a batch
"""Largest mean |log-prob - reference| per token of equal models."""


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
        equals_reference: Whether the trained model begins as its reference, whose log-probs are the batch's
            `reference`: the first step checks it.
    """

    collate: Callable[[list[int]], dict[str, Any]]
    losses: Callable[[Tensor, dict[str, Any]], tuple[Tensor, dict[str, Tensor]]]
    outputs: Callable[[torch.nn.Module, dict[str, Any]], Tensor] = completion_logps
    equals_reference: bool = False


def train(
    model: torch.nn.Module,
    objective: Objective,
    examples: Examples,
    engine: Engine,
    log: Log,
    checkpoints: Checkpoints,
    together: int = 1,
) -> int:
    """Train a model, from the checkpoint that is continued or from the start; return the training's number of steps.

    A step's loss is the mean over its items, however they are divided into micro-batches and processes. It and the
    gradients must be finite before weights change; under ZeRO the gradients are checked right after the step. In the
    first step the log-probs of a model that begins as its reference must be those of the reference.

    Args:
        model: Model to train.
        objective: What is optimised.
        examples: The examples to train on.
        engine: How the processes hold the model; its settings are those of the training.
        log: Log of the training.
        checkpoints: Checkpoints of the training.
        together: Largest number of examples with the same prompt that stay together.

    Raises:
        UserError: A loss or gradient norm that is not finite, or a model that does not begin as its reference.
    """
    settings, accelerator = engine.settings, engine.accelerator
    groups, lengths = prompt_groups(examples, together), examples.lengths
    steps_in_epoch = math.ceil(len(examples) / settings.train_batch_size)
    max_epochs = settings.max_epochs or (math.inf if settings.max_steps else 1)
    steps = int(min(settings.max_steps or math.inf, steps_in_epoch * max_epochs))
    learning_rate = learning_rates(settings, steps)
    micro_size, _ = divided_batch(settings, accelerator.num_processes)
    process, processes = accelerator.process_index, accelerator.num_processes

    if settings.gradient_checkpointing:
        checkpoint_activations(model)
    model = engine.prepare(model)
    step = checkpoints.resume(log)
    log.begin(step, steps)

    for epoch in range(step // steps_in_epoch, math.ceil(steps / steps_in_epoch)):
        order = epoch_steps(groups, lengths, settings.train_batch_size, settings.seed, epoch)
        rest = order[step % steps_in_epoch : steps - epoch * steps_in_epoch]
        for micro_batches in step_batches(rest, micro_size, process, processes):
            # Dropout draws the same numbers in a training that is continued.
            torch.manual_seed(int(np.random.SeedSequence([settings.seed, step, process]).generate_state(1)[0]))
            batches = [collated(objective, indices) for indices in micro_batches]
            items = engine.total(sum(batch["items"] for batch in batches))
            sums: dict[str, Tensor] = {}
            for number, batch in enumerate(batches, 1):
                with engine.micro_batch(last=number == len(batches)):
                    batch = engine.on_device(batch)
                    loss, figures, outputs = batch_losses(model, objective, batch, engine)
                    engine.backward(loss * processes / items)  # gradients are averaged over processes
                add_to(sums, figures | {"loss": loss})
                if step == 0 and number == 1 and objective.equals_reference:
                    check_equals_reference(outputs.detach(), batch, settings.bf16)

            norm = float(engine.clip())
            means = means_over_items(sums, accelerator)
            check_finite(step + 1, {"loss": means["loss"], "gradient norm": norm})
            rate = learning_rate(step)
            norm = float(engine.step(rate))
            step += 1
            check_finite(step, {"gradient norm": norm})  # under ZeRO it is known only after the step

            due = step % settings.logging_steps == 0 or step == steps
            log.step(step, means, due, grad_norm=norm, learning_rate=rate, epoch=step / steps_in_epoch)
            if checkpoints.due(step):
                checkpoints.save(step, log)
    log.close()
    return steps


def checkpoint_activations(model: Any) -> None:
    """Have the activations of each layer computed again in the backward pass."""
    # transformers 5.23 renamed it, and warns about the old name.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def collated(objective: Objective, indices: list[int]) -> dict[str, Any]:
    """The batch of a micro-batch. Its `counted` is 0 for a filler batch, else 1."""
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


def check_finite(step: int, figures: Mapping[str, float]) -> None:
    """Raise UserError naming the step and the figures of it that are NaN or infinite."""
    found = [f"the {name} is {value}" for name, value in figures.items() if not math.isfinite(value)]
    if found:
        raise UserError(
            f"step {step}: {' and '.join(found)}. Training is stopped, and nothing of this step is saved; the last "
            "checkpoint stays. The same command would come to this step again: give a lower learning rate, and "
            "--overwrite or another path."
        )


def check_equals_reference(outputs: Tensor, batch: Mapping[str, Any], bf16: bool) -> None:
    """Raise UserError if the log-probs of the model, which equals its reference, are not those of the reference."""
    logps = outputs if outputs.ndim == 1 else outputs[:, 0]
    distance = float((logps - batch["reference"]).abs().mean())
    if not distance <= SAME_MODEL[bf16]:
        raise UserError(
            "the model that is trained and its reference are the same, but in the first step their log-probs differ by "
            f"{distance:.2g} per token. Training is stopped, because every loss would be wrong. Give --overwrite to "
            "compute the reference again; if the error stays, this model computes something else in training than in "
            "evaluation (set a dropout in its config.json to 0)."
        )
