"""Keys and passwords are taken out of errors, logs, tracebacks and manifests."""

import base64
import html
import json
import logging
import shlex
import subprocess
import sys
from urllib.parse import quote

import pytest

from sweet_rl.models.settings import ModelSettings, api_key, base_url, split_hostnames
from sweet_rl.runs.cli.process import command_line, note_command_line, redact_output
from sweet_rl.runs.errors import ItemError, UserError
from sweet_rl.runs.manifest import Manifest
from sweet_rl.runs.redaction import redacted, redacted_values

KEYS = ["sk-plain0123", "sk-\"quote\\back/slash'", "sk-%41+b&<c>=;?#@x", "sk-schlüssel-鍵-\U0001f511"]
SPELLINGS = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON with all characters": lambda key: json.dumps(key, ensure_ascii=False),
    "JSON in JSON": lambda key: json.dumps(json.dumps({"key": key})),
    "Python": repr,
    "address": lambda key: quote(key, safe=""),
    "address with slashes": quote,
    "HTML": html.escape,
    "two of them": lambda key: json.dumps({"url": f"http://h/{quote(key)}", "text": f"<b>{html.escape(key)}</b>"}),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_key_is_found_as_json_python_addresses_and_html_spell_it(monkeypatch, key, spell):
    monkeypatch.setenv("HF_TOKEN", key)

    left = redacted(f"before {spell(key)} after")
    assert left.startswith("before ") and left.endswith(" after") and "***" in left
    assert not any(part in left.lower() for part in ("plain", "quote\\", "slash", "schl", "41+b", "41%2b"))


def test_only_keys_that_this_process_sends_are_secrets(monkeypatch):
    monkeypatch.setenv("POSTGRES_PASSWORD", "password")
    monkeypatch.setenv("OPENAI_API_KEY", "function")
    monkeypatch.setenv("LOCAL_KEY", "ollama")
    ModelSettings(hostname="localhost:8000")  # gets no key
    ModelSettings(hostname="localhost:8000", api_key_variable="LOCAL_KEY")
    text = "Should a password make the function of ollama fail?"
    assert "password" in redacted(text) and "function" in redacted(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("http://me:pass@h:8/v1", "http://h:8/v1"),
        ("http://me:p@ss@h/v1 and more", "http://h/v1 and more"),
        ("http://me:p/ss@h/v1", "http://h/v1"),
        ("http://me:p?ss@h/v1", "http://h/v1"),
        ("http://token@h/v1", "http://h/v1"),
        ("me:pass@h:8", "h:8"),
        ("--hostname=me:pass@h:8", "--hostname=h:8"),
        ("--hostname=http://me:pass@h:8", "--hostname=http://h:8"),
        ("(http://h/v1?key=pass)", "(http://h/v1)"),
        ("http://h/v1#pass", "http://h/v1"),
        ("http://h/?to=http://me:pass@x/", "http://x/"),
        ("hf://datasets/o/n@main/f.jsonl", "hf://datasets/o/n@main/f.jsonl"),
        ("https://cdn.jsdelivr.net/npm/t@2/x.css", "https://cdn.jsdelivr.net/npm/t@2/x.css"),
        ("hf:org/name@main, mail@example.org? a:b", "hf:org/name@main, mail@example.org? a:b"),
    ],
)
def test_an_address_loses_user_password_and_query_and_other_texts_stay(text, left):
    assert redacted(text) == left


def test_errors_and_commands_and_manifests_hold_no_key(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", KEYS[1])
    assert str(UserError(f"bad {KEYS[1]}")) == "bad ***" == str(ItemError("kind", f"bad {KEYS[1]}"))
    note_command_line("x.py", ["--agent_request", json.dumps({"user": KEYS[1]}), "--hostname", "http://me:pass@h"])
    try:
        assert shlex.split(command_line())[-3:] == ['{"user": "***"}', "--hostname", "http://h"]
        manifest = Manifest(tmp_path / "m.json", {"request": {"user": KEYS[1], "to": ["http://me:pass@h"]}}, [])
        manifest.finish({"servers": {f"http://h/{quote(KEYS[1])}": 1}})
    finally:
        note_command_line("", [])
    written = (tmp_path / "m.json").read_text(encoding="utf-8")
    assert "pass" not in written and "slash" not in written and "***" in written
    again = Manifest(tmp_path / "m.json", {"request": {"user": KEYS[1], "to": ["http://me:pass@h"]}}, [])
    again.adopt(json.loads(written), "m")  # the settings are the same ones


def test_log_records_and_tracebacks_hold_no_key_and_steer_no_terminal(monkeypatch, caplog):
    monkeypatch.setenv("HF_TOKEN", KEYS[0])
    before = logging.getLogRecordFactory()
    monkeypatch.setattr(sys, "excepthook", None)
    try:
        redact_output()
        try:
            raise ValueError(f"with {KEYS[0]}\x1b[2J\u202e")
        except ValueError:
            logging.getLogger("x").exception("at %s", "http://me:pass@h")
    finally:
        logging.setLogRecordFactory(before)
    assert KEYS[0] not in caplog.text and "pass" not in caplog.text and "with ***" in caplog.text
    assert "\x1b" not in caplog.text and "\u202e" not in caplog.text


@pytest.mark.parametrize("where", ["raise", "threading.Thread(target=lambda: fail()).start"])
def test_an_unexpected_error_of_a_script_is_printed_without_the_key_and_without_escapes(where, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", KEYS[0])
    code = f"""import os, threading
from sweet_rl.runs.cli.process import redact_output
redact_output()
def fail():
    key = os.environ["HF_TOKEN"]
    raise ValueError("with " + key + chr(27) + "[2J" + chr(0x9b)) from KeyError(key)
{"fail()" if where == "raise" else where + "()"}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert r"ValueError: with ***\x1b[2J\x9b" in done.stderr and "KeyError: '***'" in done.stderr
    assert KEYS[0] not in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "host",
    [
        "http://me:secret@h", "me:secret@h:80", "http://me:sec,ret@h", "http://me:sec ret@h", "https://h/v1?key=secret",
        "h,https://h/v1#secret", "https://api.openai.com\\@secret.example",
    ],
)  # fmt: skip
def test_a_hostname_with_a_password_or_a_query_is_refused_and_not_shown(host):
    for refused in (ModelSettings, split_hostnames, base_url):
        with pytest.raises(UserError) as error:
            refused(**{"hostname": host})
        assert "sec" not in str(error.value)


def test_the_key_of_openai_goes_to_its_own_api_alone(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEYS[0])
    monkeypatch.setenv("MINE", "sk-mine-0123")
    own = ["https://api.openai.com/v1", "https://API.openai.com:443/v1/", "HTTPS://api.openai.com"]
    assert [api_key(None, [url]) for url in own] == [KEYS[0]] * 3
    others = [
        "http://api.openai.com/v1", "https://api.openai.com.example.org/v1", "https://example.org/api.openai.com",
        "https://api.openai.com:8443/v1", "https://xapi.openai.com/v1", "http://127.0.0.1:8000/v1",
        "https://example.org\\.api.openai.com/v1", "https://api.openai.com./v1",
    ]  # fmt: skip
    assert [api_key(None, [url]) for url in others] == [None] * len(others)
    assert api_key(None, [own[0], others[0]]) is None  # one list has one key
    assert api_key("MINE", others) == "sk-mine-0123"
    assert "sk-mine-0123" not in redacted("a sk-mine-0123 b")  # a variable that was named is a secret from then on


@pytest.mark.parametrize("key", ["sk-a\nb-secret", "sk-schlüssel", "sk two", "sk-\x00secret"])
def test_a_key_that_no_request_can_have_is_refused_and_not_shown(monkeypatch, key):
    monkeypatch.setattr("os.environ", {"MINE": key})
    with pytest.raises(UserError, match="no request can have it") as error:
        api_key("MINE", [])
    assert "sk" not in str(error.value)


def test_a_key_in_place_of_the_name_of_its_variable_is_not_shown():
    with pytest.raises(UserError, match="not set") as error:
        ModelSettings(hostname="h", api_key_variable="sk-0123456789")
    assert "sk-" not in str(error.value)


def test_a_variable_that_is_not_set_is_named():
    with pytest.raises(UserError, match="variable HUMAN_KEY that is not set"):
        ModelSettings(hostname="h", api_key_variable="HUMAN_KEY")


def test_values_keep_their_form():
    value = {"a": [1, None, True, {"b": "http://h?x"}], "c": 0.5}
    assert redacted_values(value) == {"a": [1, None, True, {"b": "http://h"}], "c": 0.5}
    assert redacted(base64.b64encode(b"x" * 10_000).decode()) == base64.b64encode(b"x" * 10_000).decode()
