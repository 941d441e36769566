"""The training loop: batches, loss, backward, checks, step, log, evaluation, checkpoint."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.models.log_probs.projection import unwrapped
from sweet_rl.training.batches import collated, divided_batch, step_batches
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.engine import Engine
from sweet_rl.training.finite import check_figures, check_weights, finite_figures
from sweet_rl.training.first_loss import FirstStep, has_dropout
from sweet_rl.training.log import Log, add_to, means_over_items
from sweet_rl.training.objective import Examples, Objective
from sweet_rl.training.optimizer import learning_rates
from sweet_rl.training.order import epoch_steps, prompt_groups


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
        UserError: A figure or weight that is not finite, a first loss that is not that of equal models, or a damaged
            checkpoint.
    """
    settings, accelerator = engine.settings, engine.accelerator
    trained_on, held_out = split
    groups, lengths = prompt_groups(examples, trained_on, together), examples.lengths
    steps_in_epoch = math.ceil(len(trained_on) / settings.train_batch_size)
    steps = settings.max_steps or steps_in_epoch * (settings.max_epochs or 1)
    learning_rate = learning_rates(settings, steps)
    micro_size, _ = divided_batch(settings, accelerator.num_processes)
    share = {"micro_size": micro_size, "process": accelerator.process_index, "processes": accelerator.num_processes}

    if settings.gradient_checkpointing:
        checkpoint_activations(model)
    expected = None if has_dropout(model) else objective.first_loss
    model = engine.prepare(model)
    step = checkpoints.resume(log)
    first = FirstStep(None if step else expected, not settings.bf16, accelerator)
    log.begin(step, steps)

    for epoch in range(step // steps_in_epoch, math.ceil(steps / steps_in_epoch)):
        order = epoch_steps(groups, lengths, settings.train_batch_size, settings.seed, epoch)
        rest = order[step % steps_in_epoch : steps - epoch * steps_in_epoch]
        for micro_batches in step_batches(rest, **share):
            seed_step(settings.seed, step, accelerator.process_index)
            batches = [collated(objective, indices) for indices in micro_batches]
            items = engine.total(sum(batch["items"] for batch in batches))
            mean_loss: Tensor | float = 0.0
            for number, batch in enumerate(batches, 1):
                with engine.micro_batch(last=number == len(batches)):
                    batch = engine.on_device(batch)
                    loss, figures, outputs = batch_losses(model, objective, batch, engine)
                    loss = loss * accelerator.num_processes / items  # gradients are averaged over processes
                    engine.backward(loss)
                mean_loss = mean_loss + loss.detach()
                first.add(outputs, batch, figures)
                add_to(log.sums, figures)

            first.check()
            norm = engine.clip()
            checked = finite_figures(step + 1, {"loss": mean_loss, "gradient norm": norm}, accelerator)
            rate = learning_rate(step)
            norm = engine.step(rate)  # DeepSpeed clips, and knows the norm, only here
            step += 1

            epochs = step / steps_in_epoch
            due = step % settings.logging_steps == 0 or step == steps
            log.step(step, checked["loss"], due, grad_norm=float(norm), learning_rate=rate, epoch=epochs)
            evaluate_now, save_now = checkpoints.due(step, step % steps_in_epoch == 0 or step == steps)
            if evaluate_now and len(held_out):
                began = time.perf_counter()
                means = evaluate(model, objective, examples, held_out, step, engine)
                log.evaluation(step, means, epochs, time.perf_counter() - began)
                checkpoints.evaluated(step, means["loss"])
            if save_now or step == steps:
                check_model(step, model, objective, batch, engine)
            if save_now:
                checkpoints.save(step, log)
    log.close()
    return steps


def seed_step(seed: int, step: int, process: int) -> None:
    """Make the random numbers of a step, which dropout draws, the same in a training that is continued."""
    torch.manual_seed(int(np.random.SeedSequence([seed, step, process]).generate_state(1)[0]))


def checkpoint_activations(model: Any) -> None:
    """Have the activations of each layer computed again in the backward pass."""
    # transformers 5.23 renamed it, and warns about the old name.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


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
    means = means_over_items(sums, accelerator)
    check_figures(step, {"loss of the held-out examples": means["loss"]})
    return means


@torch.no_grad()
def check_model(step: int, model: torch.nn.Module, objective: Objective, batch: dict[str, Any], engine: Engine) -> None:
    """Raise UserError if the model is not to be saved: a weight, or its loss on a batch, is not finite."""
    check_weights(step, unwrapped(model), engine.accelerator)
    model.eval()
    loss, _, _ = batch_losses(model, objective, batch, engine)
    model.train()
    finite_figures(step, {"loss after it": loss}, engine.accelerator)
