"""The settings of the policy gradient. Nothing here imports torch, so that --help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweet_rl.training.settings import ABOVE_0, AT_LEAST_1, NOT_NEGATIVE, check_settings


@dataclass(frozen=True)
class PolicyGradientSettings:
    """The clipped policy gradient with group-relative advantages (PPO, GRPO and their relatives).

    Attributes:
        clip_low: Distance below 1 at which a ratio of new to old probability has no gradient, for negative advantages.
        clip_high: Distance above 1 at which it has none, for positive advantages (DAPO: 0.28).
        divide_by_std: Divide a reward's distance from the mean of its task by the standard deviation of the task's
            rewards (GRPO); Dr. GRPO does not.
        aggregation: Aggregation of the tokens' losses: dialogue, token or constant. dialogue is the mean over each
            dialogue's tokens, then over dialogues (GRPO); token the mean over all tokens of a batch (DAPO); constant
            each dialogue's sum divided by --loss_tokens (Dr. GRPO).
        loss_tokens: Number by which a dialogue's sum is divided, with --aggregation constant.
        kl_coef: Weight of the KL penalty to the reference model.
        turn_weight: Size of the effect of a turn's credit (score_turns.py) on the weight of its tokens. Weights lie
            between 1 - 2 turn_weight and 1 + 2 turn_weight. 0 needs no credit.
        old_logprobs: Old log-probs: sampled or recomputed. sampled are those that collect.py wrote;
            recomputed are those of the model that training starts from.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    divide_by_std: bool = True
    aggregation: Literal["dialogue", "token", "constant"] = "dialogue"
    loss_tokens: int = 1024
    kl_coef: float = 0.0
    turn_weight: float = 0.0
    old_logprobs: Literal["sampled", "recomputed"] = "sampled"

    def __post_init__(self) -> None:
        bounds = {
            "clip_low": (lambda value: 0 < value < 1, "be above 0 and below 1"),
            "clip_high": ABOVE_0,
            "loss_tokens": AT_LEAST_1,
            "kl_coef": NOT_NEGATIVE,
            "turn_weight": (lambda value: 0 <= value <= 0.5, "be at least 0 and at most 0.5"),
        }
        check_settings(self, bounds)
