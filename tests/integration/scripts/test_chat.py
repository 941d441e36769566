"""chat.py: a person is the human, sees the credit of each turn, and gets a transcript that the viewer opens."""

from __future__ import annotations

import io

from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.evaluation.chat import PERSON, chosen_task
from sweet_rl.runs.records import Trajectory, read_records
from tests.support.api_server import MODEL, ApiServer, chat_reply, in_turn, refusal
from tests.support.command_line import call, check_call


def test_a_dialogue_with_a_person_is_scored_graded_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n" + "  I don't know.  \n" * 20))
    written = tmp_path / "talk.jsonl"
    out = check_call("chat.py", agent_model="mini", critic="mini", critic_type="pmi", task="3", output_path=written)
    (talked,) = read_records(written, Trajectory)
    task = chosen_task(load_domain("mini"), None, "3")
    assert talked.task == task and talked.human == PERSON and talked.reward is not None
    replies = [message["content"] for message in talked.dialogue_history if message["role"] == "user"][1:]
    assert set(replies) <= {"I don't know."}  # no empty line, and without the space around it
    assert task.ground_truth in out and f"reward: {talked.reward}" in out
    assert talked.turn_credit is not None and len(talked.turn_credit) == talked.turns
    assert all(f"{credit:+.3f}" in out for credit in talked.turn_credit)


def test_what_was_said_is_kept_if_the_agents_server_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Red.\n"))
    written, refused = tmp_path / "talk.jsonl", refusal(400, "the model is gone")
    with ApiServer(in_turn(chat_reply("Which colour?"), refused)) as server:
        flags = {"agent_model": MODEL, "agent_hostname": server.url, "agent_tokenizer": "none"}
        done = call("chat.py", task="3", output_path=written, **flags)
    assert done.code != 0 and "the model is gone" in done.err
    (talked,) = read_records(written, Trajectory)
    assert [one["content"] for one in talked.dialogue_history][1:] == ["Which colour?", "Red."]
