"""The credit of turns that were taken, against one plain forward pass per turn and against ranking."""

import asyncio

import numpy as np
import pytest
import torch

from sweet_rl.method.critics import CheckedCritic, ChosenCritic, CriticFlags
from sweet_rl.method.privileged_information import with_hint
from sweet_rl.method.sweet_critic import LogRatioCritic, load_scorer, token_texts
from sweet_rl.method.turn_credit import TurnScorer, score_turns_file, taken_turns
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen, model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory, read_records
from tests.support.command_line import read_rows, write_rows
from tests.support.dialogues import graded

MINI = model_path("mini")
CHAT = ChatFormat.from_pretrained(MINI)


@pytest.fixture(scope="module")
def scorer():
    return load_scorer(MINI, False, 4096)


@pytest.fixture(scope="module")
def plain():
    return load_frozen(MINI, torch.float32)


def plain_logps(model, trajectory: Trajectory, place: int, hint: bool) -> np.ndarray:
    """Log-probs of the turn at `place` alone, from a text that ends with it."""
    parts = CHAT.dialogue(trajectory.dialogue_history[: place + 1], trajectory.tokenizer)
    parts = with_hint(parts, trajectory.task.ground_truth) if hint else parts
    before, _ = CHAT.encode(parts[:-1], trajectory.tokenizer)
    ids, _ = CHAT.encode(parts, trajectory.tokenizer)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
    return np.array([logits[i - 1, ids[i]].item() for i in range(len(before), len(ids))])


def rows_of(critic, records) -> list[list[dict]]:
    """The rows for the viewer."""
    scorer = TurnScorer.__new__(TurnScorer)
    scorer.critic = CheckedCritic(critic)
    return asyncio.run(scorer.rows(records))


def test_every_turn_has_the_advantage_of_a_text_that_ends_with_it(scorer, plain):
    trajectories = list(graded()[:2])
    found = rows_of(LogRatioCritic(CHAT, scorer, scorer, hint=True, reference_hint=False), trajectories)
    for trajectory, turns in zip(trajectories, found, strict=True):
        places = [i for i, m in enumerate(trajectory.dialogue_history) if m["role"] == "assistant"]
        assert [turn["turn"] for turn in turns] == list(range(len(places)))
        for turn, place in zip(turns, places, strict=True):
            with_c, without = (plain_logps(plain, trajectory, place, hint) for hint in (True, False))
            np.testing.assert_allclose(turn["critic"], with_c, atol=2e-3)
            np.testing.assert_allclose(turn["reference"], without, atol=2e-3)
            assert turn["advantage"] == pytest.approx(with_c.mean() - without.mean(), abs=1e-3)
            said = trajectory.dialogue_history[place]["content"]
            assert "".join(turn["tokens"]) == said + CHAT.eos_text


def test_a_turn_that_was_cut_before_its_first_token_has_no_row_and_its_dialogue_no_credit(tmp_path):
    class Lengths:
        chat = CHAT

        def scores(self, records):
            return [[float(len(text)) for text in record.additional_outputs] for record in records]

    said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "abc"}]
    cut = {"role": "assistant", "content": "", "output": "", "finish_reason": "length"}
    dialogue = Trajectory(graded()[0].task, [*said, said[0], cut, *said], id="t")
    silent = Trajectory(graded()[0].task, said[:1], id="s")
    rows = rows_of(Lengths(), [dialogue, silent])
    assert rows == [[{"turn": 0, "advantage": 3.0}, {"turn": 2, "advantage": 3.0}], []]
    source, output = write_rows(tmp_path / "in.jsonl", [dialogue, graded()[0]]), tmp_path / "out.jsonl"
    chosen = CriticFlags(model_id=MINI, reference_model_id=MINI, bf16=False).chosen
    assert score_turns_file(chosen, source, str(output))["dialogues_without_credit"] == 1
    assert ["turn_credit" in row for row in read_rows(output)] == [False, True]


class Bytes:
    """A tokenizer of single UTF-8 bytes."""

    def decode(self, ids, **_):
        return bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize("text", ["plain", "né\U0001f600x", "\U0001f600", "aé"])
def test_a_character_of_several_tokens_comes_with_the_last_of_them(text):
    pieces = token_texts(Bytes(), list(text.encode()))
    assert "".join(pieces) == text and len(pieces) == len(text.encode())
    assert all(piece == "" or piece in text for piece in pieces)


def test_a_turn_brings_its_sampled_tokens_and_log_probs_and_no_turn_of_a_failed_dialogue_is_taken():
    history = [
        {"role": "user", "content": "Task"},
        {"role": "assistant", "content": "a b", "token_ids": [5, 6], "logprobs": [-0.5, -1.0],
         "finish_reason": "length"},
        {"role": "user", "content": "Yes"},
        {"role": "assistant", "content": "c"},
    ]  # fmt: skip
    trajectory = Trajectory(graded()[0].task, history, id="t", tokenizer=CHAT.fingerprint)
    one, two = taken_turns(trajectory, CHAT)
    assert (one.additional_token_ids, one.additional_reference_logprobs) == ([[5, 6]], [[-0.5, -1.0]])
    assert (one.additional_finish_reasons, two.additional_finish_reasons) == (["length"], ["stop"])
    assert two.additional_token_ids is None and two.additional_reference_logprobs is None
    assert [record.additional_outputs for record in (one, two)] == [["a b"], ["c"]] and two.turn == 1
    for other in ("", "~ other"):
        trajectory.tokenizer = other
        assert taken_turns(trajectory, CHAT)[0].additional_token_ids is None
    trajectory.ending = "failed"
    assert taken_turns(trajectory, CHAT) == []


def test_a_file_gets_the_advantage_of_every_turn_and_keeps_all_else(tmp_path, scorer, perturbed_mini):
    source, output = write_rows(tmp_path / "in.jsonl", graded()[-4:]), tmp_path / "out.jsonl"
    chosen = CriticFlags(model_id=perturbed_mini, reference_model_id=MINI, bf16=False).chosen
    summary = score_turns_file(chosen, source, str(output))
    given = read_records(source, Trajectory)
    critic = LogRatioCritic(CHAT, load_scorer(perturbed_mini, False, 4096), scorer, reference_hint=False)
    expected = rows_of(critic, given)
    lines = read_rows(output)
    for row, before, turns in zip(lines, given, expected, strict=True):
        credit = row.pop("turn_credit", None)
        assert row == before.to_dict()
        if before.ending == "failed":
            assert credit is None
        else:
            assert credit == pytest.approx([turn["advantage"] for turn in turns], abs=1e-3)
            assert any(abs(value) > 0.01 for value in credit)
    turns = sum(t.turns for t in given if t.ending != "failed")
    assert summary == {"dialogues": len(lines), "turns": turns, "dialogues_without_credit": 1}


def test_a_judge_is_refused(tmp_path):
    source, judge = write_rows(tmp_path / "in.jsonl", graded()[:1]), ChosenCritic("judge", {"model_id": MINI})
    with pytest.raises(UserError, match="a judge compares candidates"):
        score_turns_file(judge, source, str(tmp_path / "out.jsonl"))
    assert not (tmp_path / "out.jsonl").exists()
