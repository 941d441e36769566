"""The credit of turns that were taken, against one plain forward pass per turn and against ranking."""

import asyncio
import copy
from dataclasses import replace

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
from sweet_rl.runs.records import Trajectory, TurnCandidates, read_records
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


def rows_of(critic: LogRatioCritic, records) -> list[list[dict]]:
    """The rows for the viewer."""
    scorer = TurnScorer.__new__(TurnScorer)
    scorer.critic, scorer._calls = CheckedCritic(critic), asyncio.Semaphore(1)
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


def test_the_same_model_shown_the_same_gives_no_credit(scorer):
    (turns,) = rows_of(LogRatioCritic(CHAT, scorer, scorer), graded()[:1])
    assert {turn["advantage"] for turn in turns} == {0.0}


def test_a_dialogue_in_which_the_agent_says_nothing_has_no_turns(scorer):
    silent = Trajectory(graded()[0].task, [{"role": "user", "content": "x"}])
    assert rows_of(LogRatioCritic(CHAT, scorer, scorer), [silent]) == [[]]


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
        (credit,) = rows_of(critic, [record])
        (scores,) = asyncio.run(critic.scores([record]))
        assert [row["advantage"] for row in credit] == pytest.approx(scores, abs=1e-4)
        assert ["".join(row["tokens"]) for row in credit] == [t + CHAT.eos_text for t in record.additional_outputs]
    assert ["reference" in row for row in credit] == [True, True, False]  # the last one's log-probs are of other tokens


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

    (credit,), (scores,) = rows_of(critic, [released]), asyncio.run(critic.scores([released]))
    assert [row["advantage"] for row in credit] == pytest.approx(scores, abs=1e-4)


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


def test_a_critic_without_a_chat_format_gets_the_messages_and_no_prompt():
    dialogue = graded()[0]
    history = [{"role": one["role"], "content": one["content"]} for one in dialogue.dialogue_history]
    dialogue = replace(dialogue, dialogue_history=history)
    (one, *_), (same, *_) = taken_turns(dialogue, None), taken_turns(dialogue, CHAT)
    assert one.input == [] and one.dialogue == same.dialogue and one.additional_outputs == same.additional_outputs


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
    with pytest.raises(UserError, match="a judge compares candidates"):
        TurnScorer(judge)


def test_a_dialogue_with_a_turn_that_was_cut_before_its_first_token_is_kept_without_credit(tmp_path, perturbed_mini):
    rows = [copy.deepcopy(one.to_dict()) for one in graded() if one.ending != "failed"][:2]
    turn = next(message for message in rows[0]["dialogue_history"] if message["role"] == "assistant")
    turn |= {"content": "", "output": "", "token_ids": [], "logprobs": [], "finish_reason": "length"}
    source, output = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    chosen = CriticFlags(model_id=perturbed_mini, reference_model_id=MINI, bf16=False).chosen
    assert score_turns_file(chosen, source, str(output))["dialogues_without_credit"] == 1
    assert ["turn_credit" in row for row in read_rows(output)] == [False, True]


class Lengths:
    """A critic whose score is the length of a candidate; it refuses an empty one."""

    chat = CHAT

    def scores(self, records):
        assert all(all(record.additional_outputs) and record.additional_outputs for record in records)
        return [[float(len(text)) for text in record.additional_outputs] for record in records]


def test_turns_and_candidates_without_a_token_have_no_row_and_the_others_keep_their_numbers():
    said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "abc"}]
    cut = {"role": "assistant", "content": "", "output": "", "finish_reason": "length"}
    history = [*said, said[0], cut, *said]
    dialogue = Trajectory(graded()[0].task, history, id="t")
    reasons = ["length", "stop", "length", "stop"]
    turn = TurnCandidates("o", "", ["", "ab", "", "d"], additional_finish_reasons=reasons)
    silent = TurnCandidates("o", "", ["", ""], additional_finish_reasons=reasons[::2])
    found = rows_of(Lengths(), [dialogue, silent, turn])
    assert found[0] == [{"turn": 0, "advantage": 3.0}, {"turn": 2, "advantage": 3.0}] and found[1] == []
    assert found[2] == [{"turn": 1, "advantage": 2.0}, {"turn": 3, "advantage": 1.0}]


def test_a_turn_that_cannot_be_tokenised_is_named_with_file_and_line(tmp_path, perturbed_mini):
    rows = [copy.deepcopy(one.to_dict()) for one in graded() if one.ending != "failed"][:2]
    turn = next(message for message in rows[1]["dialogue_history"] if message["role"] == "assistant")
    turn |= {"content": "a\ud83d", "output": "a\ud83d"}
    source = write_rows(tmp_path / "in.jsonl", rows)
    chosen = CriticFlags(model_id=perturbed_mini, reference_model_id=MINI, bf16=False).chosen
    with pytest.raises(UserError, match="in.jsonl, line 2: .*surrogate"):
        score_turns_file(chosen, source, str(tmp_path / "out.jsonl"))
