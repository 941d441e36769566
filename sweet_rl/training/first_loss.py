"""The first loss shows whether policy and reference, or policy and sampling policy, are computed in the same way."""

from __future__ import annotations

import torch

from sweet_rl.errors import UserError

TOLERANCE = 1e-4  # of the mean loss, in float32; relative to a loss above 1 (IPO)
BF16_DISTANCE = 0.2  # mean |log-prob - reference log-prob| per token: bfloat16 rounds a token by its place in a batch

OTHER_REFERENCE = (
    "the preference loss of the first step is {loss:.6f} instead of {expected:.6f}: the model that is trained and "
    "its reference are the same, but their log-probs differ by {distance:.2g} per token. Training is stopped, "
    "because every later loss would be wrong too. Give --overwrite to compute the reference again; if the error "
    "stays, this model computes something else in training than in evaluation and cannot be trained here."
)
OTHER_SAMPLER = (
    "in the first step the log-probs of the sampled tokens differ by {distance:.2g} per token from those in the "
    "file, so the model that is trained is not the one that sampled them. Give the --agent_model of "
    "simulate_interactions.py as --pretrain. If it is that model, in another precision or engine: --old_logprobs "
    "recomputed."
)


def check_first(loss: float, expected: float, distance: float, exact: bool, problem: str) -> None:
    """Check the first step, in which the trained model is still its reference, or the policy that sampled.

    Args:
        loss: mean over the items of the preference loss, or of `losses.kl_estimate` to the sampling policy.
        expected: of equal models: `losses.expected_first_loss`, or 0.
        distance: mean over the trained tokens of |log-prob under the policy - log-prob under the other model|.
        exact: whether log-probs are computed in float32 or better. In bfloat16 rounding may move
            the loss of long texts by more than TOLERANCE, so that there the distance per token decides.
        problem: message of the error, with {loss}, {expected} and {distance}.

    Raises:
        UserError: the two sides are not the same model.
    """
    if abs(loss - expected) <= TOLERANCE * max(1, expected) or (not exact and distance <= BF16_DISTANCE):
        return
    raise UserError(problem.format(loss=loss, expected=expected, distance=distance))


def has_dropout(model: torch.nn.Module) -> bool:
    """Whether the model's outputs are random in training. A new adapter's dropout is not: its output is 0."""
    modules = (
        module for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout) and "lora_" not in name
    )
    settings = model.config.to_dict().items()
    return any(module.p > 0 for module in modules) or any(
        name.endswith(("dropout", "pdrop", "dropout_prob")) and isinstance(value, float) and value > 0
        for name, value in settings
    )
