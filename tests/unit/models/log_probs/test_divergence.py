"""The KL of a model from a frozen one: equal to the plain way, in chunks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sweet_rl.models.log_probs import divergence, projection
from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.divergence import logps_and_kl
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.runs.errors import UserError
from tests.support.tiny_models import moved, tiny_model

IDS = [[5, 6, 7, 8, 20, 9], [5, 6, 9, 3, 20, 4], [6, 3, 21, 4]]
TRAINED = [[0, 0, 1, 0, 0, 1], [0, 0, 1, 1, 0, 1], [0, 1, 0, 1]]


def plain_logps_and_kl(frozen: torch.nn.Module, model: torch.nn.Module, text: EncodedText) -> torch.Tensor:
    ids = torch.from_numpy(text.ids[None].astype(np.int64))
    own, reference = (one(ids).logits[0].log_softmax(-1)[text.targets - 1] for one in (model, frozen))
    expected = []
    for row, target in enumerate(text.targets):
        kl = sum(reference[row, v].exp() * (reference[row, v] - own[row, v]) for v in range(own.shape[1]))
        expected.append(torch.stack([own[row, int(text.ids[target])], kl]))
    return torch.stack(expected)


@pytest.mark.parametrize(("family", "tokens_at_a_time"), [("llama", 1024), ("llama", 2)])
def test_log_probs_kl_and_gradients_are_those_of_whole_distributions(family, tokens_at_a_time, monkeypatch):
    monkeypatch.setattr(projection, "CHUNK_TOKENS", tokens_at_a_time)
    monkeypatch.setattr(projection, "CHUNK_ELEMENTS", 1)
    assert divergence.chunk_size(100) == tokens_at_a_time
    frozen, model, plain = tiny_model(family), moved(tiny_model(family)), moved(tiny_model(family))
    texts = [EncodedText.build(*one, "") for one in zip(IDS, TRAINED, strict=True)]
    share = share_prompts(model) and share_prompts(frozen)
    found = logps_and_kl(frozen, model, lay_out(texts, share))
    (found[:, 0].sum() + 3 * found[:, 1].square().sum()).backward()

    slow = torch.cat([plain_logps_and_kl(tiny_model(family), plain, text) for text in texts])
    (slow[:, 0].sum() + 3 * slow[:, 1].square().sum()).backward()
    torch.testing.assert_close(found, slow, rtol=1e-5, atol=1e-7)
    assert found[:, 1].min() > 1e-3
    own = dict(model.named_parameters())
    for name, weight in plain.named_parameters():
        torch.testing.assert_close(own[name].grad, weight.grad, rtol=1e-4, atol=1e-7)


def test_a_model_that_changes_its_logits_is_refused():
    model = tiny_model("granite")
    with pytest.raises(UserError, match="granite"):
        logps_and_kl(model, model, lay_out([EncodedText.build(IDS[0], TRAINED[0], "")], False))
