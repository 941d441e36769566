"""The turns that were taken, as records that any critic scores, their credit, and a file of them."""

import asyncio
import copy
import json

import pytest

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.critics import CriticSettings
from sweet_rl.credit.sweet_critic import LogRatioCritic, load_scorer
from sweet_rl.credit.taken_turns import TurnCritic, score_turns_file, taken_turns
from sweet_rl.credit.turn_credit import TurnCredit
from sweet_rl.errors import UserError
from sweet_rl.model_loading import model_path
from sweet_rl.records import Trajectory, read_records
from tests.support.command_line import read_rows, write_rows
from tests.support.dialogues import graded
from tests.support.perturbed_model import save_perturbed_mini

MINI = model_path("mini")


class Model:
    def __init__(self, chat: ChatFormat) -> None:
        self.chat = chat


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(ChatFormat.from_pretrained(MINI))


def test_a_turn_brings_its_sampled_tokens_and_log_probs_and_no_turn_of_a_failed_dialogue_is_taken(model):
    history = [
        {"role": "user", "content": "Task"},
        {"role": "assistant", "content": "a b", "token_ids": [5, 6], "logprobs": [-0.5, -1.0],
         "finish_reason": "length"},
        {"role": "user", "content": "Yes"},
        {"role": "assistant", "content": "c"},
    ]  # fmt: skip
    trajectory = Trajectory(graded()[0].task, history, id="t", tokenizer=model.chat.fingerprint)
    one, two = taken_turns(trajectory, model)
    assert (one.additional_token_ids, one.additional_reference_logprobs) == ([[5, 6]], [[-0.5, -1.0]])
    assert (one.additional_finish_reasons, two.additional_finish_reasons) == (["length"], ["stop"])
    assert two.additional_token_ids is None and two.additional_reference_logprobs is None
    assert [record.additional_outputs for record in (one, two)] == [["a b"], ["c"]] and two.turn == 1
    assert [record.additional_replies for record in (one, two)] == [["Yes"], [""]]
    for other in ("", "~ other"):
        trajectory.tokenizer = other
        assert taken_turns(trajectory, model)[0].additional_token_ids is None
    trajectory.ending = "failed"
    assert taken_turns(trajectory, model) == []


def test_the_credit_of_a_turn_is_its_advantage(model, tmp_path):
    critic, dialogues = save_perturbed_mini(tmp_path / "critic"), graded()[:2]
    scorers = [load_scorer(name, False, 4096) for name in (critic, MINI)]
    whole = TurnCredit(LogRatioCritic(model.chat, *scorers))
    turn_critic = TurnCritic(CriticSettings(critic, reference_model_id=MINI))
    together = asyncio.run(turn_critic.credit(dialogues))
    for trajectory, turns, credit in zip(dialogues, whole.of_trajectories(dialogues), together, strict=True):
        (alone,) = asyncio.run(turn_critic.credit([trajectory]))
        assert credit == pytest.approx([turn["advantage"] for turn in turns], abs=1e-3) == alone
        assert any(abs(value) > 0.01 for value in credit)


def test_a_file_gets_the_advantage_of_every_turn_and_keeps_all_else(model, tmp_path):
    critic = save_perturbed_mini(tmp_path / "critic")
    source, output = write_rows(tmp_path / "in.jsonl", graded()), tmp_path / "out.jsonl"
    settings = CriticSettings(critic, reference_model_id=MINI, bf16=False)
    summary = score_turns_file(settings, source, str(output))
    scorers = [load_scorer(name, False, 4096) for name in (critic, MINI)]
    given = read_records(source, Trajectory)
    expected = TurnCredit(LogRatioCritic(model.chat, *scorers)).of_trajectories(given)
    lines = read_rows(output)
    for row, before, turns in zip(lines, given, expected, strict=True):
        credit = row.pop("turn_credit", None)
        assert row == before.to_dict()
        if before.ending == "failed":
            assert credit is None
        else:
            assert credit == pytest.approx([turn["advantage"] for turn in turns], abs=1e-3)
            assert any(abs(value) > 0.01 for value in credit)
    assert summary == {"dialogues": len(lines), "turns": sum(t.turns for t in given if t.ending != "failed")}


def test_belief_gain_hears_the_dialogues_own_replies(tmp_path):
    """With other replies the credit of the questions before them is another one."""
    dialogue = next(one for one in graded() if one.ending == "answered" and one.turns > 1)
    other = copy.deepcopy(dialogue)
    other.id = "other"
    for message in other.dialogue_history[2::2]:
        message["content"] = "It is 77 then."
    settings = CriticSettings(MINI, critic_type="belief_gain", bf16=False)
    output = tmp_path / "out.jsonl"
    score_turns_file(settings, write_rows(tmp_path / "in.jsonl", [dialogue, other]), str(output))
    one, two = (row["turn_credit"] for row in read_rows(output))
    assert abs(one[0] - two[0]) > 1e-3
    assert json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["settings"]["reply"] == "of the dialogue"


def test_a_judge_is_refused(tmp_path):
    source = write_rows(tmp_path / "in.jsonl", graded()[:1])
    with pytest.raises(UserError, match="a judge compares candidates"):
        score_turns_file(CriticSettings(MINI, critic_type="judge"), source, str(tmp_path / "out.jsonl"))
    assert not (tmp_path / "out.jsonl").exists()
    with pytest.raises(UserError, match="a judge compares candidates"):
        TurnCritic(CriticSettings(MINI, critic_type="judge"))
