"""The first loss of a policy that is its reference."""

from __future__ import annotations

import math

import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.training.first_loss import check_first, has_dropout
from sweet_rl.training.lora import with_adapter
from tests.support.tiny_models import tiny_model

LN2 = math.log(2)


@pytest.mark.parametrize("loss, distance, exact", [
    (LN2 + 9e-5, 1e-6, True), (LN2 - 9e-5, 1e-6, True), (0.0, 0.0, False), (LN2 + 0.01, 0.03, False),
])  # fmt: skip
def test_what_rounding_does_is_taken(loss, distance, exact):
    check_first(loss, LN2 if loss else 0.0, distance, exact)


def test_the_loss_of_ipo_is_rounded_in_its_own_scale():
    check_first(2500.2, 2500.0, 1e-6, True)
    with pytest.raises(UserError, match="instead of 2500"):
        check_first(2500.3, 2500.0, 1e-6, True)


@pytest.mark.parametrize("loss, distance, exact", [
    (0.69358, 0.01, True),  # reference log-probs rounded to bfloat16 beside a float32 policy
    (math.nan, math.nan, True), (math.nan, math.nan, False), (LN2 + 0.2, 0.5, False),
])  # fmt: skip
def test_another_model_is_not_trained(loss, distance, exact):
    with pytest.raises(UserError, match="instead of 0.693147"):
        check_first(loss, LN2, distance, exact)


def test_dropout_is_found_in_the_settings_and_in_the_modules_but_for_a_new_adapters():
    assert not has_dropout(tiny_model("llama"))
    assert has_dropout(tiny_model("llama", attention_dropout=0.1))
    none = dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop", "summary_first_dropout"), 0.0)
    assert not has_dropout(tiny_model("gpt2", **none))
    assert has_dropout(tiny_model("gpt2", **none | {"resid_pdrop": 0.1}))
    pytest.importorskip("peft")
    adapted = with_adapter(tiny_model("llama"), 2)
    for name, module in adapted.named_modules():
        if "lora_dropout" in name and hasattr(module, "p"):
            module.p = 0.5
    assert not has_dropout(adapted)
