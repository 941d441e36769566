"""sample_tokens against hand-computed numbers and against the distribution itself."""

import math

import pytest
import torch

from sweet_rl.models.transformers_local.sample_tokens import sample_tokens

LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.2]]))


def draw(uniform: float, temperature: float = 1.0, top_p: float | None = None) -> tuple[int, float]:
    nucleus = None if top_p is None else torch.tensor([top_p])
    tokens, logps, _ = sample_tokens(LOGITS, torch.tensor([uniform]), torch.tensor([temperature]), nucleus)
    return int(tokens[0]), math.exp(float(logps[0]))


def near(drawn: tuple[int, float], token: int, probability: float) -> bool:
    return drawn[0] == token and abs(drawn[1] - probability) < 1e-5


def test_token_is_where_the_cumulative_distribution_passes_the_number():
    assert near(draw(0.0), 0, 0.5)
    assert near(draw(0.49), 0, 0.5)
    assert near(draw(0.51), 1, 0.3)
    assert near(draw(0.81), 2, 0.2)
    assert near(draw(1 - 2**-24), 2, 0.2)


def test_temperature_zero_takes_the_likeliest_and_reports_the_models_own_log_prob():
    assert near(draw(0.99, temperature=0.0), 0, 0.5)


def test_temperature_two_flattens():
    roots = [math.sqrt(p) for p in (0.5, 0.3, 0.2)]
    assert near(draw(0.0, temperature=2.0), 0, roots[0] / sum(roots))


def test_top_p_keeps_the_smallest_set_that_reaches_it_renormalised():
    assert near(draw(0.99, top_p=0.6), 1, 0.3 / 0.8)
    assert near(draw(0.99, top_p=0.4), 0, 1.0)
    assert near(draw(0.99, top_p=1.0), 2, 0.2)


def test_a_token_of_no_probability_is_never_drawn():
    logits = torch.tensor([[-math.inf, 0.0, -math.inf]]).expand(3, 3)
    tokens, *_ = sample_tokens(logits, torch.tensor([0.0, 0.5, 1 - 2**-24]), torch.ones(3))
    assert tokens.tolist() == [1, 1, 1]


def test_frequencies_are_the_probabilities():
    uniforms = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    tokens, *_ = sample_tokens(LOGITS.expand(20_000, 3), uniforms, torch.ones(20_000))
    shares = torch.bincount(tokens, minlength=3) / 20_000
    assert torch.allclose(shares, torch.tensor([0.5, 0.3, 0.2]), atol=0.015)


@pytest.mark.parametrize(
    "uniform, temperature, top_p, margin",
    [
        (0.49, 1.0, None, 0.01),  # below the edge at 0.5
        (0.52, 1.0, None, 0.02),  # above it
        (0.95, 1.0, None, 0.15),  # the last token has no edge above
        (0.01, 1.0, None, 0.49),  # the first has none below
        (0.5, 0.0, None, 0.2),  # greedy: 0.5 against 0.3
        (0.2, 1.0, 0.75, 0.05),  # the second token is the last of the set if top_p stays below 0.8
        (0.2, 1.0, 0.65, 0.1),  # and if its 0.3 stays above the third's 0.2
        (0.2, 0.0, 0.75, 0.2),  # greedy rows have no tail to cut
    ],
)
def test_the_margin_is_the_way_to_the_nearest_other_outcome(uniform, temperature, top_p, margin):
    nucleus = None if top_p is None else torch.tensor([top_p])
    for logits in (LOGITS, LOGITS.double()):
        *_, margins = sample_tokens(logits, torch.tensor([uniform]), torch.tensor([temperature]), nucleus)
        assert margins.dtype == logits.dtype and abs(float(margins[0]) - margin) < 1e-6
