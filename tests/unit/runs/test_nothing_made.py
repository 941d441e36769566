"""A step that made nothing says so with status 1, and its output is not finished."""

import json

import pytest

from sweet_rl.dialogues import AnswerEnvironment
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, Trajectory, read_records
from tests.support.command_line import call, read_rows, write_rows
from tests.support.dialogues import graded


def test_a_grading_without_a_reward_ends_with_status_1(tmp_path):
    rows = [one.to_dict() | {"ending": "failed", "failure": {"kind": "timeout", "side": "agent"}} for one in graded()]
    source = write_rows(tmp_path / "in.jsonl", rows)
    flags = {"input_path": source, "output_path": tmp_path / "out.jsonl", "preference_path": tmp_path / "pairs.jsonl"}
    result = call("evaluate_code.py", **flags, task_type="mini", sandbox="none", tokenizer="mini")
    assert result.code == 1 and f"none of the {len(rows)} dialogues has a reward" in result.err
    assert not (tmp_path / "pairs.jsonl").exists()


def test_no_pairs_are_explained_where_they_are_written_and_where_they_are_read(tmp_path):
    rows = [one.to_dict() for one in graded() if one.reward != 1.0]
    source = write_rows(tmp_path / "in.jsonl", rows)
    flags = {"input_path": source, "output_path": tmp_path / "out.jsonl", "preference_path": tmp_path / "pairs.jsonl"}
    result = call("evaluate_code.py", **flags, task_type="mini", sandbox="none", tokenizer="mini")
    assert (
        result.code == 0 and "pairs.jsonl: 0 trajectory pairs" in result.out and PreferencePair.why_none in result.out
    )
    with pytest.raises(UserError, match="No task has two dialogues of which one is preferred.*smaller --min_gap"):
        read_records(tmp_path / "pairs.jsonl", PreferencePair)
    with pytest.raises(UserError, match="Was the step that writes it finished"):
        read_records(tmp_path / "pairs.jsonl", Trajectory)


def test_a_rollout_whose_every_dialogue_failed_is_not_finished_and_can_be_played_again(tmp_path, monkeypatch):
    tasks = write_rows(tmp_path / "tasks.jsonl", [graded()[0].task.to_dict()])
    flags = {
        "agent_model": "mini", "env_model": "mini", "input_path": tasks, "output_path": tmp_path / "out.jsonl",
        "best_of_n": 2, "agent_prompt_path": "mini_agent.txt", "max_tokens": 3, "max_turns": 1,
    }  # fmt: skip

    def broken(self, *arguments, **named):
        raise LookupError("no such clause")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnswerEnvironment, "__init__", broken)
        for _ in range(2):
            result = call("simulate_interactions.py", **flags)
            assert result.code == 1 and "all 2 dialogues failed" in result.err and "LookupError" in result.out, result
    assert json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["status"] == "running"
    result = call("simulate_interactions.py", "--retry_failed", **flags)
    assert result.code == 0 and {row["ending"] for row in read_rows(tmp_path / "out.jsonl")} == {"turn_limit"}, result
