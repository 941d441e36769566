"""The released protocol: what its agent sees, what its humans ask, and its texts, which are never another's."""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import logging
import threading

import openai
import pytest

from sweet_rl.dialogues import released
from sweet_rl.dialogues.released import (
    ProtocolFile,
    ReleasedCodeHuman,
    ReleasedEnvironment,
    ReleasedPageHuman,
    protocol_text,
    text_values,
)
from sweet_rl.models.base import Completion, ModelError
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import ModelSettings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

TASK = Task("a fee of a parcel", "def fee(w):\n    return 2 * w", {"test1": "fee(1)"})
PROMPT = "Work with the person. {dialogue_history}"


def said(text: str, ids: list[int] | None = None) -> Completion:
    return Completion(text, ids, None, "stop")


def played(*replies: str, max_turns: int = 10) -> ReleasedEnvironment:
    environment = ReleasedEnvironment(TASK, PROMPT, max_turns)
    for reply in replies:
        environment.step(said(reply))
        if not environment.over:
            environment.add_human_reply("two per kilo")
    return environment


def test_the_instructions_are_a_system_message_as_they_stand_and_the_description_is_alone():
    assert played().observe() == [
        {"role": "system", "content": "Work with the person. {dialogue_history}"},
        {"role": "user", "content": "a fee of a parcel"},
    ]


@pytest.mark.parametrize(
    ("text", "shown", "sampled"),
    [
        (" Which unit? ", " Which unit? ", " Which unit? "),
        ("I think.OUTPUT: Which unit?", " Which unit?", "I think.OUTPUT: Which unit?"),
        ("aOUTPUT:bOUTPUT:c", "b", "aOUTPUT:b"),
        ("OUTPUT:", "", "OUTPUT:"),
        ("aOUTPUT:bOUTPUT:cOUTPUT:d", "b", "aOUTPUT:b"),
    ],
)
def test_a_reply_is_shown_between_its_first_two_markers(text, shown, sampled):
    assert ReleasedEnvironment(TASK, PROMPT).shown_and_sampled(said(text), None) == (shown, sampled)


def test_the_agent_sees_of_its_earlier_replies_what_the_human_saw():
    environment = played("thought OUTPUT:Which unit?")
    assert environment.observe()[2:] == [
        {"role": "assistant", "content": "Which unit?", "templated": True},
        {"role": "user", "content": "two per kilo"},
    ]
    assert environment.dialogue[2]["output"] == "thought OUTPUT:Which unit?"


def test_the_answer_stands_between_the_first_two_markers_and_nothing_is_stripped():
    environment = played("Which unit?", "Here. I WANT TO ANSWER:\ndef fee(w): ...\n I WANT TO ANSWER: again")
    assert (environment.ending, environment.answer) == ("answered", "\ndef fee(w): ...\n ")


def test_a_marker_that_is_not_shown_ends_nothing():
    environment = played("I WANT TO ANSWER: x OUTPUT: Which unit?")
    assert not environment.over
    environment = played("OUTPUT:Which unit?OUTPUT:I WANT TO ANSWER: x")
    assert not environment.over


def test_the_tenth_reply_without_a_marker_is_graded_whole():
    environment = played(*["Which unit?"] * 9, "thought OUTPUT: def fee(w): ...")
    assert (environment.turns, environment.ending, environment.answer) == (10, "turn_limit", " def fee(w): ...")


BRACES = Task("a fee {w} of {0}", "def fee(w):\n    return {1: 2 * w}[1]", {"test1": "fee(1)"})
TEMPLATE = "{{kept}} {problem_description}|{hidden_information}|{dialogue_history}"
DIALOGUE = [
    {"role": "system", "content": "Ask."},
    {"role": "user", "content": "a fee {w} of {0}"},
    {"role": "assistant", "content": " {hidden_information}? ", "output": "thought OUTPUT: {hidden_information}? "},
]


class Model:
    """A model with one reply, or one error; it keeps the requests."""

    chat = None

    def __init__(self, reply: str | ModelError) -> None:
        self.reply, self.requests = reply, []

    async def complete(self, messages, sampling):
        self.requests.append((messages, sampling))
        if isinstance(self.reply, ModelError):
            raise self.reply
        return [Completion(self.reply, None, None, "stop", 7, 5)]


def refused(kind: str, status: int | None) -> ModelError:
    error = ModelError(kind, "no")
    if status is not None:
        error.__cause__ = openai.APIError("no", request=None, body=None)
        error.__cause__.status_code = status
    return error


def reply(model: Model, human: ReleasedCodeHuman | None = None):
    return asyncio.run((human or ReleasedCodeHuman(model, TEMPLATE)).reply(BRACES, DIALOGUE, 3))


def test_braces_in_the_values_stay_and_what_the_agent_thought_is_not_shown():
    model = Model("It is.")
    reply(model)
    ((messages, sampling),) = model.requests
    assert messages == [
        {"role": "system", "content": "You are a helpful assistant."},
        {
            "role": "user",
            "content": "{kept} a fee {w} of {0}|def fee(w):\n    return {1: 2 * w}[1]|"
            "user:a fee {w} of {0}\n\n\n\nassistant: {hidden_information}? \n\n\n\nagent:",
        },
    ]
    assert (sampling.temperature, sampling.max_tokens, sampling.n) == (0.0, 4096, 1)


@pytest.mark.parametrize(("said", "leaks"), [("Two per kilo.", 0), (BRACES.ground_truth, 1)])
def test_a_leak_is_counted_and_passes(said, leaks):
    found = reply(Model(said))
    assert (found.text, found.leaks, found.prompt_tokens, found.completion_tokens) == (said, leaks, 7, 5)


@pytest.mark.parametrize(("kind", "status"), [("refused", 400), ("context", 400), ("filtered", 400), ("context", None)])
def test_a_bad_request_has_no_response_and_is_said_once(kind, status, caplog):
    human = ReleasedCodeHuman(Model(refused(kind, status)), TEMPLATE)
    with caplog.at_level(logging.WARNING):
        assert [reply(human.model, human).text for _ in range(2)] == ["No response."] * 2
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("kind", "status"), [("server", 500), ("filtered", None), ("refused", 422), ("auth", 401), ("auth", 400)]
)
def test_any_other_error_fails_the_dialogue(kind, status):
    with pytest.raises(ModelError):
        reply(Model(refused(kind, status)))


@pytest.mark.parametrize(("name", "kind"), [("gpt-4o", "image/jpeg"), ("Qwen/Qwen2-VL-72B-Instruct", "image")])
@pytest.mark.parametrize("kept", [None, "known"])
def test_the_kind_of_a_picture_is_that_of_the_models_name(tmp_path, name, kind, kept):
    cache = None if kept is None else CallCache(tmp_path / "calls")
    model = load_model(name, ModelSettings(hostname="localhost:1", tokenizer=None), cache=cache)
    human = ReleasedPageHuman(model, "", sentences=("", "", ""), renderer=None)
    assert human._picture(b"png")["image_url"]["url"] == f"data:{kind};base64,cG5n"


TEXT = "Ask, then answer.\n{dialogue_history}"
FILE = ProtocolFile("prompts/own.txt", hashlib.sha256(TEXT.encode()).hexdigest())


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server with the file; the list of the paths that were asked for; the cache is in a folder of the test."""
    asked: list[str] = []
    content = {"text": TEXT}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content["text"].encode())

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(released, "ADDRESS", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield asked, content
    server.shutdown()
    server.server_close()


def test_a_file_is_downloaded_once_by_its_commit_and_the_licence_is_said_then(hub, capsys):
    asked, _ = hub
    assert protocol_text(FILE) == TEXT
    assert "CC-BY-NC 4.0" in capsys.readouterr().out
    assert protocol_text(FILE) == TEXT
    assert capsys.readouterr().out == ""
    assert asked == [f"/{released.REPOSITORY}/{released.COMMIT}/prompts/own.txt"]


def test_a_folder_holds_the_files_under_their_paths(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/own.txt").write_text(TEXT)
    assert protocol_text(FILE, str(tmp_path)) == TEXT
    (tmp_path / "prompts/own.txt").write_text("other")
    with pytest.raises(UserError, match="its SHA-256 is"):
        protocol_text(FILE, str(tmp_path))
    with pytest.raises(UserError, match="cannot be read.*protocol_files"):
        protocol_text(FILE, str(tmp_path / "none"))


def test_the_sentences_are_read_from_the_function_in_their_order_and_nothing_runs():
    source = """
import nowhere
def other():
    return {"text": "not this one"}
async def invoke_model(a, b="x"):
    parts = [{"type": "text", "text": a}, {"text": "first one"}, {"text": "word"}]
    if b:
        parts += [{"text": "second one"}]
    raise SystemExit({"text": "third one", "other": "not this"})
"""
    assert text_values(source, "invoke_model") == ["first one", "second one", "third one"]
    assert text_values(source, "gone") == []
