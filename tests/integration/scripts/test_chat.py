"""chat.py: a person is the human, sees the credit of each turn, and gets a transcript that the viewer opens."""

from __future__ import annotations

import io

import pytest

from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.evaluation.chat import PERSON, Chat, chosen_task
from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.runs.errors import UserError
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


class Speaks:
    """An agent that asks once and then says nothing."""

    chat = None

    async def check(self): ...

    async def close(self): ...

    async def complete(self, messages, sampling):
        if any(message["role"] == "assistant" for message in messages):
            raise ModelError("context", "the dialogue is too long")
        return [Completion("Which colour?", None, None, "stop", 0, 0)]


class Scores:
    """Credit of 0.5 for each turn, but none if one is empty, or an error."""

    def __init__(self, error: Exception | None = None):
        self.error = error

    async def credit(self, trajectories):
        if self.error is not None:
            raise self.error
        said = [one["content"] for one in trajectories[0].dialogue_history if one["role"] == "assistant"]
        return [[0.5] * len(said) if all(said) else []]


@pytest.mark.parametrize("error", [None, UserError("the critic is gone"), RuntimeError()])
def test_a_dialogue_is_held_to_its_end_if_a_turn_is_empty_or_the_critic_fails(error):
    domain, said = load_domain("mini"), []
    task, prompt = chosen_task(domain, None, "0"), domain.agent_template("x")
    talk = Chat(domain, task, Speaks(), prompt, Sampling(), 9, Scores(error), lambda _: "Red.", said.append)
    talked = talk.run()
    assert [one["content"] for one in talked.dialogue_history][1:] == ["Which colour?", "Red.", ""]
    assert talked.reward == 0.0 and talked.turn_credit is None
    assert ("[credit +0.500]" in said[1]) == (error is None) and "[no credit: " in said[2]


def test_what_was_said_is_kept_if_the_agents_server_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Red.\n"))
    written, refused = tmp_path / "talk.jsonl", refusal(400, "the model is gone")
    with ApiServer(in_turn(chat_reply("Which colour?"), refused)) as server:
        flags = {"agent_model": MODEL, "agent_hostname": server.url, "agent_tokenizer": "none"}
        done = call("chat.py", task="3", output_path=written, **flags)
    assert done.code != 0 and "the model is gone" in done.err
    (talked,) = read_records(written, Trajectory)
    assert [one["content"] for one in talked.dialogue_history][1:] == ["Which colour?", "Red."]
