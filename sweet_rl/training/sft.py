"""Rejection fine-tuning: imitate the dialogues that succeeded, the agent's tokens only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory
from sweet_rl.scoring.logps import ROW_TOKENS
from sweet_rl.scoring.rows import lay_out
from sweet_rl.scoring.shared_prefix import share_prompts
from sweet_rl.training.examples import DialogueExamples
from sweet_rl.training.trainer import GroupedTrainer


def successful(trajectories: Sequence[Trajectory], min_reward: float, path: str) -> list[Trajectory]:
    """Graded trajectories with at least `min_reward`. Raises UserError if there is none."""
    graded = [t for t in trajectories if t.reward is not None and t.ending != "failed"]
    if not graded:
        raise UserError(f"{path}: no trajectory has a reward. Run evaluate_code.py on it first.")
    kept = [t for t in graded if t.reward >= min_reward]
    if not kept:
        best = max(t.reward for t in graded)
        raise UserError(
            f"{path}: none of {len(graded)} graded trajectories reaches --min_reward {min_reward} "
            f"(best: {best})."
        )
    return kept


def imitation_losses(logps: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """logps [S] of the trained tokens -> the sum of their negatives; every token counts the same."""
    loss = -logps.sum()
    return loss, {"items": torch.tensor(float(len(logps)), device=logps.device), "nll": loss}


class ImitationTrainer(GroupedTrainer):
    """Trains on whole dialogues; a step's loss is the mean over its trained tokens."""

    def __init__(
        self, model, args, examples: DialogueExamples, chat: ChatFormat, train: np.ndarray, evaluation: np.ndarray
    ):
        share = share_prompts(model)

        def collate(indices: list[int]) -> dict[str, Any]:
            return lay_out([examples.texts[i] for i in indices], share, ROW_TOKENS)

        super().__init__(model, args, train, evaluation, examples.prompts, examples.lengths, collate, chat)

    def items(self, batch: dict) -> int:
        return len(batch["targets"])

    def losses(self, logps: Tensor, batch: dict) -> tuple[Tensor, dict[str, Tensor]]:
        return imitation_losses(logps)
