"""Rejection fine-tuning: imitate the dialogues that succeeded, the agent's tokens only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory
from sweet_rl.training.logps import ROW_TOKENS
from sweet_rl.training.loop import GroupedTrainer
from sweet_rl.training.rows import EncodedText, lay_out
from sweet_rl.training.shared_prefix import share_prompts


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

    def __init__(self, model, args, texts: Sequence[EncodedText], chat: ChatFormat):
        share = share_prompts(model)
        groups = [np.asarray([i]) for i in range(len(texts))]

        def collate(indices: list[int]) -> dict:
            return lay_out([texts[i] for i in indices], share, ROW_TOKENS)

        super().__init__(model, args, len(texts), groups, [len(text) for text in texts], collate, chat)

    def items(self, batch: dict) -> int:
        return len(batch["targets"])

    def losses(self, logps: Tensor, batch: dict) -> tuple[Tensor, dict[str, Tensor]]:
        return imitation_losses(logps)
