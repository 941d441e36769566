"""Belief gain of the turns of a dialogue, against one plain forward pass per text."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch

from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.method.critics import ChosenCritic
from sweet_rl.method.turn_credit import TurnScorer, taken_turns
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen, model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates
from tests.support.dialogues import graded

MINI = model_path("mini")
BELIEF_GAIN = str(Path(__file__).parents[1] / "belief_gain.py")
CHAT = ChatFormat.from_pretrained(MINI)


def summed(model, prompt: str, text: str) -> float:
    """The log-prob of a text after a prompt, both with their markup."""
    first, then = (CHAT.tokenizer.encode(part, add_special_tokens=False) for part in (prompt, text))
    with torch.no_grad():
        logps = model(torch.tensor([first + then])).logits[0].log_softmax(-1)
    return sum(logps[len(first) + place - 1, token].item() for place, token in enumerate(then))


def rendered(messages) -> str:
    rows = [{"role": one["role"], "content": one["content"]} for one in messages]
    return CHAT.tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=True)


def test_a_question_hears_its_reply_and_an_answer_has_its_pmi():
    model, dialogue = load_frozen(MINI, torch.float32), graded()[0]
    settings = {"model_id": MINI, "normalize": "none", "bf16": False}
    (gains,), (informations,) = (
        asyncio.run(TurnScorer(ChosenCritic(kind, settings)).credit([dialogue])) for kind in (BELIEF_GAIN, "pmi")
    )
    history, solution = dialogue.dialogue_history, dialogue.task.ground_truth
    places = [place for place, message in enumerate(history) if message["role"] == "assistant"]
    assert ANSWER_MARKER in history[places[-1]]["content"] and len(places) > 1
    for place, gain in zip(places[:-1], gains, strict=False):
        after, before = (
            summed(model, f"{rendered(history[:end])}{ANSWER_MARKER}\n", solution) for end in (place + 2, place)
        )
        assert gain == pytest.approx(after - before, abs=1e-3)
    assert gains[-1] == pytest.approx(informations[-1], abs=1e-4)
    assert np.ptp(gains) > 0.1


def test_a_turn_that_got_no_reply_and_a_candidate_hear_an_empty_one():
    dialogue = graded()[0]
    first, *_, last = taken_turns(dialogue, CHAT)
    assert last.extra == {"additional_replies": [""]}
    unanswered = TurnCandidates(first.input, "", ["Why?", "Why?"], task=first.task, dialogue=first.dialogue)
    critic = ChosenCritic(BELIEF_GAIN, {"model_id": MINI, "bf16": False, "normalize": "none"}).load()
    known = TurnCandidates(**vars(unanswered) | {"extra": {"additional_replies": ["", "It is 7 for each."]}})
    (alone,), (heard,) = (asyncio.run(critic.scores([record])) for record in (unanswered, known))
    assert alone[0] == alone[1] == pytest.approx(heard[0], abs=1e-6) and heard[1] != pytest.approx(heard[0], abs=1e-3)


def test_replies_stay_with_their_candidates_if_an_empty_one_is_left_out_and_are_one_for_each():
    extra = {"additional_replies": ["", "to a", "to b"], "additional_note": ["kept"], "seen": [1, 2, 3]}
    reasons = ["length", "stop", "stop"]
    record = TurnCandidates("o", "", ["", "a", "b"], id="row-7", additional_finish_reasons=reasons, extra=extra)
    left = record.without_empty()
    assert left.extra == {"additional_replies": ["to a", "to b"], "additional_note": ["kept"], "seen": [1, 2, 3]}
    assert record.extra["additional_replies"] == ["", "to a", "to b"]
    left.task, left.dialogue, left.extra = graded()[0].task, graded()[0].dialogue_history[:1], extra
    critic = ChosenCritic(BELIEF_GAIN, {"model_id": MINI, "bf16": False}).load()
    with pytest.raises(UserError, match="'row-7': additional_replies must hold one reply for each"):
        asyncio.run(critic.scores([left]))
