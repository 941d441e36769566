"""The policy-gradient loss against numbers computed by hand, a slow plain loop and its autograd."""

from __future__ import annotations

import math

import pytest
import torch

from lab.policy_gradients.losses import clipped_surrogate, kl_estimate, policy_gradient_losses
from lab.policy_gradients.settings import PolicyGradientSettings

TEXT = torch.tensor([0, 0, 0, 1])


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def ratio(*values: float) -> torch.Tensor:
    return tensor(*(math.log(value) for value in values))


@pytest.mark.parametrize("new, advantage, loss", [
    (1.1, 2.0, -2.2), (1.5, 2.0, -2.4), (0.5, 2.0, -1.0),  # a good token: no more gain above 1.2
    (0.9, -2.0, 1.8), (0.5, -2.0, 1.6), (1.5, -2.0, 3.0),  # a bad one: no more gain below 0.8
])  # fmt: skip
def test_a_tokens_gain_ends_where_its_ratio_leaves_the_range(new, advantage, loss):
    logps = (ratio(new) - 3).requires_grad_()
    found = clipped_surrogate(logps, tensor(-3.0), tensor(advantage), 0.2, 0.2)
    assert found.item() == pytest.approx(loss)
    found.sum().backward()
    clipped = loss in (-2.4, 1.6)
    assert logps.grad.item() == pytest.approx(0.0 if clipped else -advantage * new)


def test_the_two_sides_of_the_range_are_independent():
    found = clipped_surrogate(ratio(1.25, 0.5), tensor(0, 0), tensor(1, -1), 0.4, 0.28)
    assert found.tolist() == pytest.approx([-1.25, 0.6])


def test_the_kl_estimate_is_that_of_the_two_probabilities_and_its_mean_is_the_divergence():
    assert kl_estimate(ratio(0.5), ratio(0.25)).item() == pytest.approx(0.5 - 1 + math.log(2))
    assert kl_estimate(ratio(0.3), ratio(0.3)).item() == 0
    policy, other = (0.7, 0.2, 0.1), (0.3, 0.3, 0.4)
    mean = (tensor(*policy) * kl_estimate(ratio(*policy), ratio(*other))).sum().item()
    assert mean == pytest.approx(sum(p * math.log(p / q) for p, q in zip(policy, other, strict=True)))


# ratios 1.1, 1.5, 0.9 of a good dialogue and 0.5 of a bad one; the reference has half the probability of each token
LOGPS = ratio(1.1, 1.5, 0.9, 0.5) - 1
SAMPLED = tensor(-1, -1, -1, -1)
ADVANTAGES = tensor(1, 1, 1, -2)
TERMS = [-1.1, -1.2, -0.9, 1.6]
PENALTY = 0.5 - 1 + math.log(2)


@pytest.mark.parametrize("aggregation, loss, penalty", [
    ("dialogue", sum(TERMS[:3]) / 3 + TERMS[3], 2 * PENALTY),
    ("token", sum(TERMS), 4 * PENALTY),
    ("constant", sum(TERMS) / 10, 4 * PENALTY / 10),
])  # fmt: skip
def test_tokens_count_by_dialogue_alike_or_divided_by_a_constant(aggregation, loss, penalty):
    how = PolicyGradientSettings(aggregation=aggregation, loss_tokens=10, kl_coef=0.3)
    found, figures = policy_gradient_losses(LOGPS, SAMPLED, ADVANTAGES, TEXT, how)
    assert found.item() == pytest.approx(loss)
    assert figures["clipped"].item() == pytest.approx(2 if aggregation == "token" else 1 / 3 + 1)
    reference = LOGPS - math.log(2)
    found, figures = policy_gradient_losses(LOGPS, SAMPLED, ADVANTAGES, TEXT, how, reference)
    assert found.item() == pytest.approx(loss + 0.3 * penalty)
    assert figures["reference_kl"].item() == pytest.approx(4 * PENALTY if aggregation == "token" else 2 * PENALTY)


def plain_loop(logps, sampled, reference, advantages, text, how) -> torch.Tensor:
    """The objective as it is written in the papers, token by token."""
    total = torch.zeros((), dtype=torch.float64)
    for dialogue in text.unique().tolist():
        own = [s for s in range(len(text)) if text[s] == dialogue]
        for s in own:
            r = torch.exp(logps[s]) / math.exp(sampled[s])
            inside = torch.clamp(r, 1 - how.clip_low, 1 + how.clip_high)
            gain = torch.min(r * advantages[s], inside * advantages[s])
            other = math.exp(reference[s]) / torch.exp(logps[s])
            gain = gain - how.kl_coef * (other - torch.log(other) - 1)
            divisor = {"dialogue": len(own), "token": 1, "constant": how.loss_tokens}[how.aggregation]
            total = total - gain / divisor
    return total


@pytest.mark.parametrize("aggregation", ["dialogue", "token", "constant"])
def test_loss_and_gradient_are_those_of_a_plain_loop(aggregation):
    torch.manual_seed(0)
    how = PolicyGradientSettings(clip_low=0.1, clip_high=0.3, aggregation=aggregation, loss_tokens=7, kl_coef=0.2)
    text = torch.tensor([0] * 5 + [1] * 2 + [2] * 8)
    sampled, reference = -2 * torch.rand(2, 15).double()
    advantages = torch.randn(15).double()
    fast, slow = ((sampled + 0.3 * torch.randn(15).double()).requires_grad_() for _ in range(2))
    slow.data.copy_(fast.data)
    loss, _ = policy_gradient_losses(fast, sampled, advantages, text, how, reference)
    expected = plain_loop(slow, sampled, reference, advantages, text, how)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(fast.grad, slow.grad, rtol=1e-12, atol=1e-14)
    assert (fast.grad != 0).any()


def test_at_the_sampling_policy_the_gradient_is_that_of_reinforce():
    logps = tensor(-1, -2, -3, -4).requires_grad_()
    loss, figures = policy_gradient_losses(
        logps, logps.detach(), ADVANTAGES, TEXT, PolicyGradientSettings(aggregation="token")
    )
    loss.backward()
    assert logps.grad.tolist() == (-ADVANTAGES).tolist()
    assert figures["sampling_kl"].item() == figures["clipped"].item() == 0
