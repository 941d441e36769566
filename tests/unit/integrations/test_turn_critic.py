"""The credit of the turns of a dialogue, by any critic that gives one message a score."""

import asyncio

import pytest

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.log_ratio import LogRatioCritic, load_scorer
from sweet_rl.credit.turn_credit import TurnCredit
from sweet_rl.errors import UserError
from sweet_rl.integrations.turn_critic import TurnCritic
from sweet_rl.names import model_path
from tests.support.dialogues import graded
from tests.support.perturbed_model import save_perturbed_mini

MINI = model_path("mini")


@pytest.fixture(scope="module")
def critic(tmp_path_factory) -> str:
    return save_perturbed_mini(tmp_path_factory.mktemp("critic") / "model")


def test_the_credit_of_a_turn_is_its_advantage(critic):
    chat, scorers = ChatFormat.from_pretrained(MINI), [load_scorer(name, False, 4096) for name in (critic, MINI)]
    whole = TurnCredit(LogRatioCritic(chat, *scorers)).of_trajectories(graded()[:2])
    turn_critic = TurnCritic({"model_id": critic, "reference_model_id": MINI})
    for trajectory, turns in zip(graded()[:2], whole, strict=True):
        credit = asyncio.run(turn_critic.credit(trajectory))
        assert credit == pytest.approx([turn["advantage"] for turn in turns], abs=1e-3)
        assert any(abs(value) > 0.01 for value in credit)


@pytest.mark.parametrize(
    "settings, word",
    [({"model_id": MINI, "critic_type": "judge"}, "judge"), ({"model": MINI}, "'model'"), ({}, "model_id")],
)
def test_a_critic_that_cannot_give_credit_is_refused(settings, word):
    with pytest.raises(UserError, match=word):
        TurnCritic(settings)
