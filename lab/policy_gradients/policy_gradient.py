"""Policy gradients: the policy learns from dialogues that it has just sampled, each compared with its siblings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from lab.policy_gradients.losses import kl_estimate, policy_gradient_losses
from lab.policy_gradients.policy_examples import PolicyExamples, encode_policy_examples
from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.models.log_probs.logps import ROW_TOKENS
from sweet_rl.models.log_probs.rows import lay_out
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.vocabulary import check_vocabulary
from sweet_rl.models.weights import load_config, model_input, model_path
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory
from sweet_rl.training.loop import BF16_DISTANCE, TOLERANCE, Objective
from sweet_rl.training.reference import frozen_logps
from sweet_rl.training.run import Training
from sweet_rl.training.settings import DataSettings, TrainingSettings

CHECKED = 64  # dialogues whose log-probs are compared with those of sampling before training


def policy_gradient_objective(
    examples: PolicyExamples,
    sampled: Sequence[np.ndarray],
    reference: Sequence[np.ndarray] | None,
    how: PolicyGradientSettings,
    share: bool,
) -> Objective:
    """The clipped surrogate over whole dialogues.

    Args:
        examples: the dialogues.
        sampled: [n_i] log-probs of each dialogue's trained tokens under the policy that sampled them.
        reference: the same under the reference model; None without a KL penalty.
        how: the loss.
        share: whether the model is one that `share_prompts` has switched.
    """

    def collate(indices: list[int]) -> dict[str, Any]:
        def flat(arrays: Sequence[np.ndarray]) -> torch.Tensor:
            return torch.from_numpy(np.concatenate([arrays[i] for i in indices]))

        batch = lay_out([examples.texts[i] for i in indices], share, ROW_TOKENS)
        batch |= {"sampled": flat(sampled), "advantages": flat(examples.advantages)}
        if reference is not None:
            batch["reference"] = flat(reference)
        return batch | {"items": len(batch["targets"]) if how.aggregation == "token" else len(indices)}

    def losses(logps: torch.Tensor, batch: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        reference = batch.get("reference")
        return policy_gradient_losses(logps, batch["sampled"], batch["advantages"], batch["text"], how, reference)

    return Objective(collate, losses)


def check_sampler(own: Sequence[np.ndarray], sampled: Sequence[np.ndarray], exact: bool) -> None:
    """Check that the model that is to be trained is the one that sampled the dialogues.

    Args:
        own: Log-probs [n_i] of dialogues' trained tokens under that model.
        sampled: Log-probs [n_i] of sampling of the same tokens.
        exact: Whether log-probs are computed in float32 or better. In bfloat16 the distance per token decides.

    Raises:
        UserError: The two differ by more than rounding.
    """
    logps, other = (torch.from_numpy(np.concatenate(values)).double() for values in (own, sampled))
    distance = (logps - other).abs().mean().item()
    if kl_estimate(logps, other).mean().item() <= TOLERANCE or (not exact and distance <= BF16_DISTANCE):
        return
    raise UserError(
        f"the log-probs of the sampled tokens under --pretrain differ by {distance:.2g} per token from those in the "
        "file, so the model that is trained is not the one that sampled them. Give the --agent_model of "
        "simulate_interactions.py as --pretrain. If it is that model, in another precision or engine: --old_logprobs "
        "recomputed."
    )


def train_policy_gradient(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: PolicyGradientSettings,
    settings: TrainingSettings,
    data: DataSettings,
    ref_pretrain: str | None = None,
    overwrite: bool = False,
) -> dict | None:
    """Train the policy that sampled the graded dialogues of `dataset`.

    `ref_pretrain` is the reference model of the KL penalty; default: `pretrain`. Other arguments, result and errors are
    those of `run.Training`.
    """
    training = Training(pretrain, dataset, save_path, settings, data, overwrite)
    weights, frozen = training.weights, model_path(ref_pretrain or pretrain)
    recorded, inputs = to_settings(how), []
    if how.kl_coef:
        recorded["ref_pretrain"] = ref_pretrain or pretrain
        inputs.append(model_input(ref_pretrain or pretrain))
    with training.opened(recorded, inputs) as unfinished:
        if not unfinished:
            return None
        chat = ChatFormat.from_pretrained(weights)
        if how.kl_coef and frozen != weights:
            check_vocabulary(chat, frozen, "--ref_pretrain")
        examples = encode_policy_examples(training.read(Trajectory), chat, data, how, dataset)
        for path in {weights, *([frozen] if how.kl_coef else [])}:
            load_config(path)
        split = training.split(examples)

        sampled = examples.sampled
        if sampled is None:
            sampled = frozen_logps(examples.texts, weights, training)
        else:
            own = frozen_logps(examples.texts[:CHECKED], weights, training)
            check_sampler(own, sampled[:CHECKED], exact=not settings.bf16)
        reference = frozen_logps(examples.texts, frozen, training) if how.kl_coef else None
        model = training.trainable(training.load_weights(weights))
        objective = policy_gradient_objective(examples, sampled, reference, how, training.share_prompts(model))
        # Siblings share a step, in which their advantages cancel: steps of similar lengths alone would hold only good
        # or only bad dialogues, because an agent that answers too early does so in a short one.
        together, counts = settings.train_batch_size, {"trajectories": len(examples)}
        return training.fit(model, objective, examples, split, counts, chat, together)
