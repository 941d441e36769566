"""Credit with the KL in the loss: equal to the slow plain way, and what the KL is for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from lab.ciphered.train_centred import CentreSettings, centred_losses
from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.divergence import logps_and_kl
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import Examples
from sweet_rl.training.settings import PreferenceSettings
from tests.support.tiny_models import moved, tiny_model

HOW = PreferenceSettings(beta=0.7, normalize="turn", nll_loss_coef=0.01)


def texts() -> list[EncodedText]:
    """Two dialogues with the same prompt, of two turns of two and one tokens, and one of another."""
    ids = [[5, 6, 7, 8, 20, 9], [5, 8, 9, 3, 20, 4], [6, 3, 21, 4]]
    trained = [[0, 1, 1, 0, 0, 1], [0, 1, 1, 0, 0, 1], [0, 1, 0, 1]]
    return [EncodedText.build(*one, "") for one in zip(ids, trained, strict=True)]


def distributions(model: torch.nn.Module, text: EncodedText) -> torch.Tensor:
    """Log-probs [n, V] of every token where a trained one stands, in a plain forward pass."""
    logits = model(torch.from_numpy(text.ids[None].astype(np.int64))).logits[0].log_softmax(-1)
    return logits[text.targets - 1]


def credit(model: torch.nn.Module, frozen: torch.nn.Module, text: EncodedText, centre: float) -> tuple:
    """Sum over turns of the mean of log-ratio + centre * KL, and that of the KL: one token after the other."""
    own, reference = distributions(model, text), distributions(frozen, text).detach()
    total, divergence = torch.zeros((), dtype=own.dtype), torch.zeros((), dtype=own.dtype)
    for number, (target, turn) in enumerate(zip(text.ids[text.targets], text.turns, strict=True)):
        kl = sum(reference[number, v].exp() * (reference[number, v] - own[number, v]) for v in range(own.shape[1]))
        length = int((text.turns == turn).sum())
        total = total + (own[number, int(target)] - reference[number, int(target)] + centre * kl) / length
        divergence = divergence + kl / length
    return total, divergence


@pytest.mark.parametrize(("centre", "kl_coef"), [(0.0, 0.0), (1.0, 0.0), (0.0, 0.8)])
def test_loss_and_gradient_are_those_of_each_text_by_itself(centre, kl_coef):
    frozen, model, every = tiny_model("llama"), moved(tiny_model("llama")), texts()
    reference = [own.astype(np.float64) for own in score_texts(frozen, every)]
    share = share_prompts(model) and share_prompts(frozen)
    examples = Examples(every, np.asarray([[0, 1], [2, 1]]), ["a", "b"])
    how = replace(HOW, kl_coef=kl_coef)
    objective = preference_objective(examples, reference, how, share, frozen)
    batch = objective.collate([0, 1])
    outputs = objective.outputs(model, batch)
    loss, _ = centred_losses(outputs, batch, how, CentreSettings(centre))
    if centre == 0:
        assert objective.losses(outputs, batch)[0].item() == loss.item()  # train_dpo.py
    loss.backward()
    fast = {name: weight.grad for name, weight in model.named_parameters()}

    plain, still = moved(tiny_model("llama")), tiny_model("llama")
    total = torch.zeros((), dtype=loss.dtype)
    for chosen, rejected in ((0, 1), (2, 1)):
        (better, kl), (worse, other) = (credit(plain, still, every[i], centre) for i in (chosen, rejected))
        total = total - torch.nn.functional.logsigmoid(HOW.beta * (better - worse)) + kl_coef * (kl + other)
        ids = every[chosen].ids[every[chosen].targets].astype(np.int64)
        nll = -distributions(plain, every[chosen]).gather(1, torch.from_numpy(ids)[:, None]).mean()
        total = total + HOW.nll_loss_coef * nll
    total.backward()
    assert loss.item() == pytest.approx(total.item(), rel=1e-6)
    for name, weight in plain.named_parameters():
        torch.testing.assert_close(fast[name], weight.grad, rtol=1e-5, atol=1e-8)


def test_centred_credit_has_the_mean_0_over_the_agents_actions_and_a_log_ratio_has_not():
    frozen, model = tiny_model("llama"), moved(tiny_model("llama"))
    share = share_prompts(model) and share_prompts(frozen)
    size = frozen.config.vocab_size
    actions = [EncodedText.build([5, 6, v], [0, 0, 1], "") for v in range(size)]
    examples = Examples(actions, np.asarray([[v, (v + 1) % size] for v in range(size)]), ["a"] * size)
    reference = [own.astype(np.float64) for own in score_texts(frozen, actions)]
    batch = preference_objective(examples, reference, HOW, share).collate(list(range(size)))
    logps, kl = logps_and_kl(frozen, model, batch).unbind(1)
    ratios, chances = logps - batch["reference"], batch["reference"].exp()
    assert (chances * ratios).sum().item() == pytest.approx(-kl[0].item(), rel=1e-6)
    assert (chances * (ratios + kl)).sum().item() == pytest.approx(0, abs=1e-9) and kl[0] > 1e-3


def test_the_penalty_of_imitation_is_the_kl_on_average_and_leaves_the_centre_alone():
    outputs = torch.tensor([[-1.0, 0.5], [-2.0, 0.25], [-3.0, 1.0]], dtype=torch.float64)
    batch = {
        "reference": torch.tensor([-1.5, -2.0, -2.0], dtype=torch.float64),
        "text": torch.tensor([0, 0, 1]),
        "turn": torch.tensor([0, 0, 1]),
        "starts": torch.zeros(2, 3),
        "pairs": torch.tensor([[0, 1]]),
    }
    losses = partial(centred_losses, outputs, batch, PreferenceSettings(beta=1.0, normalize="turn"))
    plain, _ = losses(CentreSettings(0.0))
    penalised, figures = losses(CentreSettings(0.0, imitation_coef=2.0))
    # text 0: mean of (-1.5 + 1, -2 + 2) = -0.25; text 1: -2 + 3 = 1
    assert (penalised - plain).item() == pytest.approx(2 * (-0.25 + 1))
    assert figures["kl"].item() == pytest.approx(0.375 + 1)
