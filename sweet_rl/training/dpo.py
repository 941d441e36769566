"""Preference training: the critic (trajectory pairs, equation 3) and the actor (turn pairs, equation 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.scoring.length_normalization import NORMALIZE
from sweet_rl.scoring.logps import ROW_TOKENS
from sweet_rl.scoring.rows import lay_out
from sweet_rl.scoring.shared_prefix import share_prompts
from sweet_rl.training.examples import PreferenceExamples
from sweet_rl.training.losses import dpo_loss, log_ratios, nll_loss
from sweet_rl.training.trainer import GroupedTrainer


@dataclass(frozen=True)
class Preference:
    """beta, the weight of the chosen text's NLL (mean over its trained tokens), and how a text's log-ratio is
    normalised (see losses.token_weights)."""

    beta: float = 0.1
    nll_loss_coef: float = 0.0
    normalize: str = "none"

    def __post_init__(self) -> None:
        if self.beta <= 0 or self.nll_loss_coef < 0:
            name, value = ("beta", self.beta) if self.beta <= 0 else ("nll_loss_coef", self.nll_loss_coef)
            raise UserError(f"--{name} is {value}; it must {'be above 0' if name == 'beta' else 'not be negative'}.")


def resolve_normalize(normalize: str, mean_log_prob: bool) -> str:
    """--normalize; "auto" follows the released --mean_log_prob: with it "trajectory", without it "none".

    Raises UserError for an unknown name, or if the two contradict each other.
    """
    if normalize == "auto":
        return "trajectory" if mean_log_prob else "none"
    if normalize not in NORMALIZE:
        raise UserError(f"--normalize is {normalize!r}; it must be one of {', '.join(NORMALIZE)}.")
    if mean_log_prob and normalize != "trajectory":
        raise UserError(
            f"--mean_log_prob means --normalize trajectory, but --normalize is {normalize}. Give one."
        )
    return normalize


def preference_losses(
    logps: Tensor,
    reference: Tensor,
    text: Tensor,
    turn: Tensor,
    lengths: Tensor,
    pairs: Tensor,
    how: Preference,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum of the pairs' losses, and sums of what is worth logging.

    logps, reference [S]; text, turn int64 [S]; lengths [N]; pairs int64 [P, 2] (chosen, rejected).
    """
    texts = len(lengths)
    ratios = log_ratios(logps, reference, text, turn, texts, how.normalize)
    chosen, rejected = ratios[pairs[:, 0]], ratios[pairs[:, 1]]
    loss = dpo_loss(chosen, rejected, how.beta)
    nll = nll_loss(logps, text, texts)[pairs[:, 0]]
    metrics = {
        "items": torch.tensor(float(len(pairs)), device=logps.device),
        "preference_loss": loss.sum(),
        "nll": nll.sum(),
        "margin": how.beta * (chosen - rejected).sum(),
        "accuracy": (chosen > rejected).float().sum(),
        "chosen_reward": how.beta * chosen.sum(),
        "rejected_reward": how.beta * rejected.sum(),
    }
    total = loss.sum()
    if how.nll_loss_coef:
        total = total + how.nll_loss_coef * nll.sum()
    return total, metrics


def pair_collator(
    examples: PreferenceExamples,
    reference: Sequence[np.ndarray],
    share: bool = True,
    row_tokens: int = ROW_TOKENS,
) -> Callable[[list[int]], dict[str, Any]]:
    """Indices of pairs -> a batch: their distinct texts laid out in rows, reference log-probs, and who is
    whom.
    """

    def collate(indices: list[int]) -> dict[str, Any]:
        pairs = examples.pairs[indices]
        numbers, local = np.unique(pairs, return_inverse=True)
        texts = [examples.texts[n] for n in numbers]
        return lay_out(texts, share, row_tokens) | {
            "pairs": torch.from_numpy(local.reshape(pairs.shape)),
            "lengths": torch.tensor([len(text.targets) for text in texts]),
            "reference": torch.from_numpy(np.concatenate([reference[n] for n in numbers])),
        }

    return collate


class PreferenceTrainer(GroupedTrainer):
    """Trains on pairs; all pairs of one prompt (at most `together`) go through the model in one row."""

    def __init__(
        self, model, args, examples: PreferenceExamples, reference, how: Preference, chat: ChatFormat,
        train: np.ndarray, evaluation: np.ndarray, together: int = 4,
    ):  # fmt: skip
        self.how = how
        collate = pair_collator(examples, reference, share_prompts(model))
        super().__init__(
            model, args, train, evaluation, examples.prompts, examples.lengths, collate, chat, together
        )

    def items(self, batch: dict) -> int:
        return len(batch["pairs"])

    def losses(self, logps: Tensor, batch: dict) -> tuple[Tensor, dict[str, Tensor]]:
        names = ("reference", "text", "turn", "lengths", "pairs")
        return preference_losses(logps, *(batch[name] for name in names), self.how)
