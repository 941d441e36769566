"""`--protocol released`: every message to agent and human, written out by hand from the published protocol."""

from __future__ import annotations

import base64

import pytest

from sweet_rl.dialogues import released
from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import call, check_call, read_rows, write_rows
from tests.support.protocol_files import AGENT, BACKEND, protocol_files

TASK = Task("a fee", "def fee(w): return 2 * w", {"test1": "fee(1)", "test2": "fee(4)"})
ANSWER = "I WANT TO ANSWER:\ndef fee(w): return 2 * w\nI WANT TO ANSWER: sure"
HELPFUL = {"role": "system", "content": "You are a helpful assistant."}


def user(content: object) -> dict:
    return {"role": "user", "content": content}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def flags(folder, files: str, task: Task, **more) -> dict:
    write_rows(folder / "tasks.jsonl", [task.to_dict()])
    return {
        "protocol": "released", "protocol_files": files, "agent_model": MODEL, "env_model": MODEL,
        "input_path": folder / "tasks.jsonl", "output_path": folder / "out.jsonl", **more,
    }  # fmt: skip


def test_every_message_of_ten_turns_and_the_grade_of_the_tenth_reply(tmp_path, monkeypatch):
    """The first reply of the human is longer than 400 characters; its second request is refused as bad."""
    files = protocol_files(tmp_path, monkeypatch, released, BACKEND)
    agent: list[dict] = []
    human: list[dict] = []

    def reply(body: dict):
        own = human if body["messages"][0] == HELPFUL else agent
        own.append(body)
        if own is agent:
            return chat_reply(TASK.ground_truth if len(agent) == 10 else f"thought OUTPUT:q{len(agent)}")
        return refusal(400, "This is bad.") if len(human) == 2 else chat_reply("w" * 401 + " end.")

    with ApiServer(reply) as server:
        check_call(
            "simulate_interactions.py",
            **flags(tmp_path, files, TASK, agent_hostname=server.url, hostname=server.url),
        )
    assert len(agent) == 10 and len(human) == 9
    dialogue = [user("a fee")]
    for turn in range(1, 11):
        body = agent[turn - 1]
        assert body["messages"] == [{"role": "system", "content": AGENT}, *dialogue]
        assert (body["temperature"], body["max_tokens"]) == (1.0, 1024)
        dialogue.append(assistant(f"q{turn}"))
        if turn < 10:
            history = "".join(f"{one['role']}:{one['content']}\n\n\n\n" for one in dialogue) + "agent:"
            prompt = f"It is a fee; you wrote {TASK.ground_truth}.\n\n{history}"
            assert human[turn - 1]["messages"] == [HELPFUL, user(prompt)]
            assert (human[turn - 1]["temperature"], human[turn - 1]["max_tokens"]) == (0.0, 4096)
            dialogue.append(user("No response." if turn == 2 else "w" * 400))
    check_call("evaluate_code.py", input_path=tmp_path / "out.jsonl")
    (row,) = read_rows(tmp_path / "out.graded.jsonl")
    assert (row["ending"], row["answer"], row["protocol"]) == ("turn_limit", TASK.ground_truth, "released")
    assert row["reward"] == 1.0 and row["dialogue_history"][2]["output"] == "thought OUTPUT:q1"


@pytest.mark.parametrize(
    ("changes", "line"),
    [({"env_max_chars": 400, "temperature": 1.0}, None), ({"max_turns": 5}, "--max_turns 5 (10)")],
)
def test_settings_that_are_not_the_published_ones_are_named(changes, line, tmp_path, monkeypatch):
    files = protocol_files(tmp_path, monkeypatch, released, BACKEND)
    with ApiServer(lambda body: chat_reply(ANSWER)) as server:
        given = flags(tmp_path, files, TASK, agent_hostname=server.url, hostname=server.url, **changes)
        out = check_call("simulate_interactions.py", **given)
    assert ("not as published" in out) == (line is not None) and (line or "") in out


@pytest.mark.parametrize("flag", ["agent_prompt_path", "user_prompt_path"])
def test_other_prompts_are_refused(flag, tmp_path, monkeypatch):
    files = protocol_files(tmp_path, monkeypatch, released, BACKEND)
    done = call("simulate_interactions.py", **flags(tmp_path, files, TASK, **{flag: "mini_agent.txt"}))
    assert done.code != 0 and f"leave out {flag}" in done.err


SENTENCES = """
def invoke_model(client, page, reference):
    parts = [{"type": "text", "text": prompt}]
    if page:
        parts += [{"type": "text", "text": "Here is my page:"}]
    else:
        parts += [{"type": "text", "text": "No page yet."}]
    return parts + [{"type": "text", "text": "And the goal:"}]
"""
REFERENCE = "<html><body style='background:red'><p>goal</p></body></html>"
PAGE = "<html><body style='background:blue'><p>draft</p></body></html>"


def test_every_message_of_a_dialogue_about_a_page(tmp_path, monkeypatch):
    texts = {
        "FRONTEND_AGENT": ("a.txt", "Draw it."), "FRONTEND_HUMAN": ("h.txt", "Compare {the} two."),
        "FRONTEND_SENTENCES": ("env.py", SENTENCES),
    }  # fmt: skip
    files = protocol_files(tmp_path, monkeypatch, released, texts)
    said = ["Which color?", f"Like this? {PAGE} or <html></html>", "I WANT TO ANSWER: done"]
    with renderer_or_skip() as renderer:
        goal, draft = (base64.b64encode(renderer.render(page).png).decode() for page in (REFERENCE, PAGE))
    agent: list[dict] = []
    human: list[dict] = []

    def reply(body: dict):
        if body["messages"][0]["role"] == "system":
            agent.append(body)
            return chat_reply(said[len(agent) - 1])
        human.append(body)
        return chat_reply("x" * 1001)

    with ApiServer(reply) as server:
        given = flags(tmp_path, files, Task("a red page", REFERENCE), agent_hostname=server.url, hostname=server.url)
        check_call("simulate_interactions.py", **given, task_type="html")
    (row,) = read_rows(tmp_path / "out.jsonl")

    def shown(*parts: str) -> list[dict]:
        """The human's one message; what is no sentence is a picture."""
        return [user([
            {"type": "image_url", "image_url": {"url": f"data:image;base64,{part}"}} if part in (goal, draft)
            else {"type": "text", "text": part}
            for part in parts
        ])]  # fmt: skip

    start = [{"role": "system", "content": "Draw it."}, user("a red page")]
    first = [assistant(said[0]), user("x" * 1000)]
    second = [assistant(said[1]), user("x" * 1000)]
    assert [body["messages"] for body in agent] == [start, start + first, start + first + second]
    assert [body["messages"] for body in human] == [
        shown("Compare {the} two.", "No page yet.", "And the goal:", goal),
        shown("Compare {the} two.", "Here is my page:", draft, "And the goal:", goal),
    ]
    assert (row["ending"], row["answer"]) == ("answered", PAGE)
    assert {(body["temperature"], body["max_tokens"]) for body in human} == {(0.0, 4096)}
