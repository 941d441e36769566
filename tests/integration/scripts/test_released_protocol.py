"""`--protocol released`: every message to agent and human, written out by hand from the published protocol."""

from __future__ import annotations

import base64

import pytest

from sweet_rl.dialogues import released
from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import call, read_rows, write_rows
from tests.support.protocol_files import AGENT, BACKEND, protocol_files

TASK = Task("a fee", "def fee(w): return 2 * w", {"test1": "fee(1)", "test2": "fee(4)"})
ANSWER = "I WANT TO ANSWER:\ndef fee(w): return 2 * w\nI WANT TO ANSWER: sure"


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Plays one dialogue of the backend; returns its row, and the requests of both sides."""
    folder = protocol_files(tmp_path, monkeypatch, released, BACKEND)
    write_rows(tmp_path / "tasks.jsonl", [TASK.to_dict()])

    def run(agent, human) -> tuple[dict, list[dict], list[dict]]:
        """agent(turn) -> text; human(turn) -> text or Reply."""
        requests: dict[str, list[dict]] = {"agent": [], "human": []}

        def reply(body: dict):
            is_human = body["messages"][0]["content"] == "You are a helpful assistant."
            own = requests["human" if is_human else "agent"]
            own.append(body)
            said = human(len(own)) if is_human else agent(len(own))
            return chat_reply(said) if isinstance(said, str) else said

        with ApiServer(reply) as server:
            done = call(
                "simulate_interactions.py", protocol="released", protocol_files=folder, agent_model=MODEL,
                env_model=MODEL, agent_hostname=server.url, hostname=server.url,
                input_path=tmp_path / "tasks.jsonl", output_path=tmp_path / "out.jsonl",
            )  # fmt: skip
        assert done.code == 0, done.err
        (row,) = read_rows(tmp_path / "out.jsonl")
        return row, requests["agent"], requests["human"]

    return run


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def test_every_message_of_ten_turns(play):
    row, agent, human = play(lambda turn: f"thought OUTPUT:q{turn}", lambda turn: f"r{turn}")
    assert len(agent) == 10 and len(human) == 9
    dialogue = [user("a fee")]
    for turn in range(1, 11):
        body = agent[turn - 1]
        assert body["messages"] == [{"role": "system", "content": AGENT}, *dialogue]
        assert (body["temperature"], body["max_tokens"]) == (1.0, 1024)
        dialogue.append(assistant(f"q{turn}"))
        if turn < 10:
            history = "".join(f"{one['role']}:{one['content']}\n\n\n\n" for one in dialogue) + "agent:"
            prompt = "It is a fee; you wrote def fee(w): return 2 * w.\n\n" + history
            system = {"role": "system", "content": "You are a helpful assistant."}
            assert human[turn - 1]["messages"] == [system, user(prompt)]
            assert (human[turn - 1]["temperature"], human[turn - 1]["max_tokens"]) == (0.0, 4096)
            dialogue.append(user(f"r{turn}"))
    assert (row["ending"], row["answer"], row["protocol"]) == ("turn_limit", "q10", "released")
    assert row["dialogue_history"][2]["output"] == "thought OUTPUT:q1"


def test_of_several_outputs_the_first_is_said_and_what_was_sampled_after_it_is_dropped(play):
    sampled = [
        " a\n",
        "t OUTPUT: a",
        "t OUTPUT:a OUTPUT:b",
        "OUTPUT:aOUTPUT:bOUTPUT:c",
        "t OUTPUT:",
        f"OUTPUT:{ANSWER}",
    ]
    row, agent, _ = play(lambda turn: sampled[turn - 1], lambda turn: "r")
    said = [" a\n", " a", "a ", "a", "", ANSWER]
    messages = [message for text in said[:-1] for message in (assistant(text), user("r"))]
    assert agent[-1]["messages"][2:] == messages
    kept = [message["output"] for message in row["dialogue_history"] if message["role"] == "assistant"]
    assert kept == [" a\n", "t OUTPUT: a", "t OUTPUT:a ", "OUTPUT:a", "t OUTPUT:", f"OUTPUT:{ANSWER}"]
    assert row["answer"] == "\ndef fee(w): return 2 * w\n"


def test_a_reply_is_cut_at_400_characters_in_the_middle_of_a_word(play):
    _, agent, _ = play(lambda turn: "q" if turn == 1 else ANSWER, lambda turn: "w" * 401 + " end.")
    assert agent[1]["messages"][-1] == user("w" * 400)


def test_a_request_that_is_refused_as_bad_has_no_response(play):
    row, agent, _ = play(lambda turn: "q" if turn == 1 else ANSWER, lambda turn: refusal(400, "This is bad."))
    assert agent[1]["messages"][-1] == user("No response.")
    assert row["ending"] == "answered"


def test_the_tenth_reply_is_graded_without_a_marker(play, tmp_path):
    play(lambda turn: "def fee(w): return 2 * w" if turn == 10 else "q", lambda turn: "r")
    assert call("evaluate_code.py", input_path=tmp_path / "out.jsonl").code == 0
    (row,) = read_rows(tmp_path / "out.graded.jsonl")
    assert (row["ending"], row["reward"], row["protocol"]) == ("turn_limit", 1.0, "released")


@pytest.mark.parametrize("flag", ["agent_prompt_path", "user_prompt_path"])
def test_other_prompts_are_refused(flag, tmp_path, monkeypatch):
    folder = protocol_files(tmp_path, monkeypatch, released, BACKEND)
    write_rows(tmp_path / "tasks.jsonl", [TASK.to_dict()])
    done = call(
        "simulate_interactions.py", protocol="released", protocol_files=folder, agent_model=MODEL, env_model=MODEL,
        agent_hostname="localhost:1", hostname="localhost:1", input_path=tmp_path / "tasks.jsonl",
        output_path=tmp_path / "out.jsonl", **{flag: "mini_agent.txt"},
    )  # fmt: skip
    assert done.code != 0 and f"leave out {flag}" in done.err


def test_settings_that_are_not_the_published_ones_are_named(tmp_path, monkeypatch):
    folder = protocol_files(tmp_path, monkeypatch, released, BACKEND)
    write_rows(tmp_path / "tasks.jsonl", [TASK.to_dict()])
    for number, (flags, line) in enumerate(
        (
            ({}, None),
            ({"env_max_chars": 400, "temperature": 1.0}, None),
            ({"max_turns": 5, "env_max_tokens": 256}, "--max_turns 5 (10), --env_max_tokens 256 (4096)"),
        )
    ):
        with ApiServer(lambda body: chat_reply(ANSWER)) as server:
            done = call(
                "simulate_interactions.py", protocol="released", protocol_files=folder, agent_model=MODEL,
                env_model=MODEL, agent_hostname=server.url, hostname=server.url,
                input_path=tmp_path / "tasks.jsonl", output_path=tmp_path / f"{number}.jsonl", **flags,
            )  # fmt: skip
        assert done.code == 0, done.err
        assert ("not as published" in done.out) == (line is not None) and (line or "") in done.out


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


@pytest.mark.parametrize(("name", "media_type"), [(MODEL, "image"), ("gpt-4o-2024-08-06", "image/jpeg")])
def test_every_message_of_a_dialogue_about_a_page(tmp_path, monkeypatch, name, media_type):
    texts = {
        "FRONTEND_AGENT": ("a.txt", "Draw it."), "FRONTEND_HUMAN": ("h.txt", "Compare {the} two."),
        "FRONTEND_SENTENCES": ("env.py", SENTENCES),
    }  # fmt: skip
    folder = protocol_files(tmp_path, monkeypatch, released, texts)
    write_rows(tmp_path / "tasks.jsonl", [Task("a red page", REFERENCE).to_dict()])
    said = [
        "Which color? <HTML><BODY>No page</BODY></HTML>",
        f"Like this? {PAGE} or <html></html>",
        "I WANT TO ANSWER: done",
    ]
    with renderer_or_skip() as renderer:
        goal, draft = (base64.b64encode(renderer.render(page).png).decode() for page in (REFERENCE, PAGE))
    agent, human = [], []

    def reply(body: dict):
        if body["messages"][0]["role"] == "system":
            agent.append(body)
            return chat_reply(said[len(agent) - 1])
        human.append(body)
        return chat_reply("x" * 1001)

    with ApiServer(reply) as server:
        server.models = [MODEL, name]
        done = call(
            "simulate_interactions.py", protocol="released", protocol_files=folder, task_type="html",
            agent_model=MODEL, env_model=name, agent_hostname=server.url, hostname=server.url,
            input_path=tmp_path / "tasks.jsonl", output_path=tmp_path / "out.jsonl",
        )  # fmt: skip
    assert done.code == 0, done.err
    (row,) = read_rows(tmp_path / "out.jsonl")

    def text(words: str) -> dict:
        return {"type": "text", "text": words}

    def picture(data: str) -> dict:
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}

    start = [{"role": "system", "content": "Draw it."}, user("a red page")]
    first = [assistant(said[0]), user("x" * 1000)]
    second = [assistant(said[1]), user("x" * 1000)]
    assert [body["messages"] for body in agent] == [start, start + first, start + first + second]
    assert [body["messages"] for body in human] == [
        [user([text("Compare {the} two."), text("No page yet."), text("And the goal:"), picture(goal)])],
        [
            user(
                [
                    text("Compare {the} two."),
                    text("Here is my page:"),
                    picture(draft),
                    text("And the goal:"),
                    picture(goal),
                ]
            )
        ],
    ]
    assert (row["ending"], row["answer"]) == ("answered", PAGE)
    assert {(body["temperature"], body["max_tokens"]) for body in human} == {(0.0, 4096)}
