"""Rejection fine-tuning: imitate dialogues that succeeded, or the chosen texts of pairs; the agent's tokens only."""

from __future__ import annotations

from typing import Any

import torch

from sweet_rl.models.log_probs.logps import ROW_TOKENS
from sweet_rl.models.log_probs.rows import lay_out
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import PreferencePair, Trajectory, kind_of
from sweet_rl.training.examples import Examples, encode_replies, encode_trajectories, successful
from sweet_rl.training.loop import Objective
from sweet_rl.training.run import Training
from sweet_rl.training.settings import DataSettings, TrainingSettings


def imitation_losses(logps: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Sum of the negative log-probs [S] of the trained tokens; every token counts the same."""
    loss = -logps.sum()
    return loss, {"nll": loss}


def imitation_objective(examples: Examples, share: bool) -> Objective:
    """NLL of the agent's tokens; a step's loss is the mean over its trained tokens."""

    def collate(indices: list[int]) -> dict[str, Any]:
        batch = lay_out([examples.texts[i] for i in examples.rows[indices, 0]], share, ROW_TOKENS)
        return batch | {"items": len(batch["targets"])}

    return Objective(collate, lambda logps, batch: imitation_losses(logps))


def train_imitation(
    pretrain: str,
    dataset: str,
    save_path: str,
    settings: TrainingSettings,
    data: DataSettings,
    min_reward: float = 1.0,
    overwrite: bool = False,
) -> dict | None:
    """Fine-tune a model on trajectories with at least `min_reward`, or on the chosen texts of pairs.

    Arguments, result and errors are those of `run.Training`; `min_reward` does not concern pairs.
    """
    training = Training(pretrain, dataset, save_path, settings, data, overwrite)
    with training.opened({"min_reward": min_reward}) as unfinished:
        if not unfinished:
            return None
        chat = ChatFormat.from_pretrained(training.weights)
        of_pairs = kind_of(dataset) is PreferencePair
        if of_pairs:
            examples = encode_replies(training.read(PreferencePair), chat, data, dataset)
        else:
            kept = successful(training.read(Trajectory), min_reward, dataset)
            examples = encode_trajectories(kept, chat, data, dataset)
        model = training.trainable(training.load_weights(training.weights))
        training.begin()
        objective = imitation_objective(examples, training.share_prompts(model))
        summary = {"texts" if of_pairs else "trajectories": len(examples)}
        return training.fit(model, objective, examples, summary, chat, together=1)
