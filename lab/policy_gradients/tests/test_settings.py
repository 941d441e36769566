"""Settings that mean nothing are refused with the name of their flag."""

from __future__ import annotations

import pytest

from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.runs.errors import UserError


@pytest.mark.parametrize(
    "field, value",
    [
        ("clip_low", 0.0),
        ("clip_low", 1.0),
        ("clip_high", 0.0),
        ("aggregation", "turn"),
        ("loss_tokens", 0),
        ("kl_coef", -0.1),
        ("turn_weight", -0.1),
        ("turn_weight", 0.6),
        ("old_logprobs", "stored"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_the_name_of_its_flag(field, value):
    with pytest.raises(UserError, match=f"--{field}"):
        PolicyGradientSettings(**{field: value})
