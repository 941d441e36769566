"""Batches of dialogues with their advantages and log-probs, and their gradient on a model."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

from lab.policy_gradients.policy_examples import PolicyExamples
from lab.policy_gradients.policy_gradient import check_sampler, policy_gradient_objective
from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import tiny_model


def examples() -> PolicyExamples:
    """Dialogues of one and two turns; the first and the last have the same prompt."""
    trained = [[0, 1, 1], [0, 0, 1], [0, 1, 0, 0, 1, 1]]
    ids = [[5, 6, 7], [5, 8, 9], [5, 3, 20, 21, 4, 9]]
    texts = [EncodedText.build(*text, "") for text in zip(ids, trained, strict=True)]
    advantages = [np.asarray(own, dtype=np.float32) for own in ([1, 1], [-2], [0.5, 1.5, 1.5])]
    sampled = [np.full(len(own), -3.0 - i, dtype=np.float32) for i, own in enumerate(advantages)]
    return PolicyExamples(texts, np.arange(3)[:, None], ["a"] * 3, advantages=advantages, sampled=sampled)


@pytest.mark.parametrize("aggregation, items", [("dialogue", 2), ("constant", 2), ("token", 5)])
def test_a_batch_has_the_advantages_and_log_probs_of_its_own_tokens(aggregation, items):
    found, how = examples(), PolicyGradientSettings(aggregation=aggregation)
    batch = policy_gradient_objective(found, found.sampled, None, how, True).collate([2, 0])
    assert batch["targets"].tolist() == [3, 4, 9, 6, 7] and batch["items"] == items
    assert batch["advantages"].tolist() == [0.5, 1.5, 1.5, 1, 1]
    assert batch["sampled"].tolist() == [-5, -5, -5, -3, -3] and "reference" not in batch


def test_the_first_gradient_is_that_of_advantage_weighted_log_probs_of_each_dialogue_by_itself():
    found, model = examples(), tiny_model("llama")
    sampled = [own.astype(np.float64) for own in score_texts(model, found.texts)]
    shared = share_prompts(model)
    objective = policy_gradient_objective(found, sampled, sampled, PolicyGradientSettings(kl_coef=0.7), shared)
    batch = objective.collate([0, 1, 2])
    loss, figures = objective.losses(objective.outputs(model, batch), batch)
    loss.backward()
    assert figures["sampling_kl"].item() == pytest.approx(0, abs=1e-10)
    fast = {name: weight.grad for name, weight in model.named_parameters()}

    plain, total = tiny_model("llama"), 0.0
    for text, advantages in zip(found.texts, found.advantages, strict=True):
        logits = plain(torch.from_numpy(text.ids[None].astype(np.int64))).logits[0].log_softmax(-1)
        own = [logits[at - 1, int(text.ids[at])] for at in text.targets]
        total = total - sum(float(a) * logp for a, logp in zip(advantages, own, strict=True)) / len(own)
    total.backward()
    for name, weight in plain.named_parameters():
        torch.testing.assert_close(fast[name], weight.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "apart, exact, same", [(0.01, True, True), (0.03, True, False), (0.15, False, True), (0.3, False, False)]
)
def test_a_policy_that_did_not_sample_the_dialogues_is_refused(apart, exact, same):
    own = [np.full(3, -2.0, dtype=np.float32)]  # the estimated divergence is about apart^2 / 2
    with contextlib.nullcontext() if same else pytest.raises(UserError, match="sampled"):
        check_sampler(own, [own[0] + np.float32(apart)], exact)
