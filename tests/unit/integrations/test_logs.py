"""Trajectories out of the log of another tool."""

import json

import pytest

from sweet_rl.integrations.logs import read_dialogues
from sweet_rl.runs.errors import UserError
from tests.support.command_line import write_rows
from tests.support.dialogues import graded


def episode(trajectory, ok: bool = True, **info) -> dict:
    """An episode with a good dialogue; one that is not `ok` failed after the dialogue was graded."""
    human = {"agent": {"name": "human"}, "ok": True, "info": {}}
    agent = {"agent": {"name": "agent"}, "ok": True, "info": {"dialogue": trajectory.to_dict(), **info}}
    return {"ok": ok, "traces": [human, agent]}


def test_dialogues_without_a_reward_are_counted_and_equal_ids_numbered_anew(tmp_path):
    first, second = graded()[:2]
    resumed = {"ok": True, "traces": []}
    path = write_rows(tmp_path / "traces.jsonl", [episode(second), episode(first), resumed, episode(second, ok=False)])
    found, failed = read_dialogues(path)
    assert [trajectory.to_dict() for trajectory in found] == [second.to_dict(), first.to_dict()]
    assert failed == 2
    path = write_rows(tmp_path / "traces.jsonl", [episode(second), episode(second), episode(first)])
    found, failed = read_dialogues(path)
    task = first.task.id
    assert [trajectory.id for trajectory in found] == [f"{task}-0", f"{task}-1", f"{task}-2"] and failed == 0


def test_a_dialogue_keeps_the_credit_of_its_turns(tmp_path):
    first, second = graded()[:2]
    credit = [0.5 - turn for turn in range(first.turns)]
    path = write_rows(tmp_path / "traces.jsonl", [episode(first, turn_credit=credit), episode(second)])
    (credited, bare), _ = read_dialogues(path)
    assert credited.turn_credit == credit and bare.turn_credit is None


def test_a_log_that_cannot_be_used_is_one_message(tmp_path):
    with pytest.raises(UserError, match="no log"):
        read_dialogues(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="holds no dialogue"):
        read_dialogues(write_rows(tmp_path / "traces.jsonl", []))
    (tmp_path / "traces.jsonl").write_text(json.dumps([1]) + "\n")
    with pytest.raises(UserError, match="line 1"):
        read_dialogues(tmp_path / "traces.jsonl")
