"""The credit of turns and tokens, against one plain forward pass a turn and against ranking."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.sweet_critic import LogRatioCritic, load_scorer
from sweet_rl.credit.turn_credit import TurnCredit, token_texts
from sweet_rl.errors import UserError
from sweet_rl.log_probs.privileged_information import with_hint
from sweet_rl.model_loading import load_frozen, model_path
from sweet_rl.records import Trajectory, TurnCandidates
from tests.support.dialogues import graded

MINI = model_path("mini")
CHAT = ChatFormat.from_pretrained(MINI)


@pytest.fixture(scope="module")
def scorer():
    return load_scorer(MINI, False, 4096)


def plain_logps(trajectory: Trajectory, place: int, hint: bool) -> np.ndarray:
    """Log-probs of the turn at `place` alone, from a text that ends with it."""
    parts = CHAT.dialogue(trajectory.dialogue_history[: place + 1], trajectory.tokenizer)
    parts = with_hint(parts, trajectory.task.ground_truth) if hint else parts
    before, _ = CHAT.encode(parts[:-1], trajectory.tokenizer)
    ids, _ = CHAT.encode(parts, trajectory.tokenizer)
    model = load_frozen(MINI, torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
    return np.array([logits[i - 1, ids[i]].item() for i in range(len(before), len(ids))])


def test_every_turn_has_the_advantage_of_a_text_that_ends_with_it(scorer):
    credit = TurnCredit(LogRatioCritic(CHAT, scorer, scorer, hint=True, reference_hint=False))
    trajectories = list(graded()[:2])
    for trajectory, turns in zip(trajectories, credit.of_trajectories(trajectories), strict=True):
        places = [i for i, m in enumerate(trajectory.dialogue_history) if m["role"] == "assistant"]
        assert [turn["turn"] for turn in turns] == list(range(len(places)))
        for turn, place in zip(turns, places, strict=True):
            with_c, without = plain_logps(trajectory, place, True), plain_logps(trajectory, place, False)
            np.testing.assert_allclose(turn["critic"], with_c, atol=2e-3)
            np.testing.assert_allclose(turn["reference"], without, atol=2e-3)
            assert turn["advantage"] == pytest.approx(with_c.mean() - without.mean(), abs=1e-3)
            said = trajectory.dialogue_history[place]["content"]
            assert "".join(turn["tokens"]) == said + CHAT.eos_text


def test_the_same_model_shown_the_same_gives_no_credit(scorer):
    turns = TurnCredit(LogRatioCritic(CHAT, scorer, scorer)).of_trajectories(graded()[:1])[0]
    assert {turn["advantage"] for turn in turns} == {0.0}


def test_a_dialogue_in_which_the_agent_says_nothing_has_no_turns(scorer):
    silent = Trajectory(graded()[0].task, [{"role": "user", "content": "x"}])
    assert TurnCredit(LogRatioCritic(CHAT, scorer, scorer)).of_trajectories([silent]) == [[]]


def candidates() -> TurnCandidates:
    trajectory = graded()[0]
    texts = ["Is there a maximum?", "When do you need it?", "Is there a basic charge for everybody?"]
    prompt = CHAT.prompt(trajectory.dialogue_history[:3])
    own = [
        [-0.5] * (len(CHAT.encode([{"text": t + CHAT.eos_text, "train": True}])[0]) - (t == texts[2])) for t in texts
    ]
    return TurnCandidates(prompt, texts[0], texts, own, task=trajectory.task, turn=1)


def test_candidates_have_the_scores_that_ranking_gives_them(scorer):
    record = candidates()
    for reference in (scorer, None):
        critic = LogRatioCritic(CHAT, scorer, reference)
        credit = TurnCredit(critic).of_candidates([record])[0]
        scores = asyncio.run(critic.scores([record]))[0]
        assert [row["advantage"] for row in credit] == pytest.approx(scores, abs=1e-4)
        assert ["".join(row["tokens"]) for row in credit] == [t + CHAT.eos_text for t in record.additional_outputs]
    assert ["reference" in row for row in credit] == [True, True, False]  # the last one's log-probs are of other tokens


def test_trajectories_without_a_reference_model_are_refused(scorer):
    with pytest.raises(UserError, match="reference model"):
        TurnCredit(LogRatioCritic(CHAT, scorer, None)).of_trajectories(graded()[:1])


class Bytes:
    """A tokenizer of single UTF-8 bytes."""

    def decode(self, ids, **_):
        return bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize("text", ["plain", "né\U0001f600x", "\U0001f600", "aé"])
def test_a_character_of_several_tokens_comes_with_the_last_of_them(text):
    pieces = token_texts(Bytes(), list(text.encode()))
    assert "".join(pieces) == text and len(pieces) == len(text.encode())
    assert all(piece == "" or piece in text for piece in pieces)


def test_bytes_that_are_no_text_are_not_lost():
    pieces = token_texts(Bytes(), [0xFF] * 12 + [97])
    assert "".join(pieces).endswith("a") and len(pieces) == 13


def test_sums_of_released_candidates_are_those_that_ranking_takes():
    released = replace(candidates(), extra={"additional_reference_logprobs_sum": [-7.0, -8.0, -9.0]})

    def scorer(texts):
        return [np.full(len(text.targets), -0.25) for text in texts]

    critic = LogRatioCritic(CHAT, scorer, None, normalize="none")

    async def in_a_notebook():  # whose event loop runs
        return TurnCredit(critic).of_candidates([released])[0]

    credit = asyncio.run(in_a_notebook())
    scores = asyncio.run(critic.scores([released]))[0]
    assert [row["advantage"] for row in credit] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("aggregation", [{"normalize": "none"}, {"normalize": "sqrt"}, {"normalize": "top"}])
def test_tokens_are_added_up_as_for_ranking(scorer, aggregation):
    critic = LogRatioCritic(CHAT, scorer, scorer, reference_hint=False, **aggregation)
    credit = TurnCredit(critic).of_candidates([candidates()])[0]
    scores = asyncio.run(critic.scores([candidates()]))[0]
    assert [row["advantage"] for row in credit] == pytest.approx(scores, abs=1e-3)
