"""Keys in errors, summaries and manifests."""

from __future__ import annotations

import json

import pytest

from sweet_rl.runs.cli import print_summary, run
from sweet_rl.runs.errors import ItemError, UserError, masked, register_key
from sweet_rl.runs.run import open_run

KEY = "hf_0123456789abcdef"


@pytest.mark.parametrize("register", [True, False])
def test_a_key_stands_in_no_error_no_summary_and_no_manifest(register, tmp_path, monkeypatch, capsys):
    if register:
        register_key(KEY)
    else:
        monkeypatch.setenv("HF_TOKEN", KEY)
    assert str(UserError(f"server said {KEY}")) == "server said ***"
    assert str(ItemError("server", f"server said {KEY}")) == "server said ***"
    print_summary({"reply": KEY})
    assert capsys.readouterr().out == "reply: ***\n"
    monkeypatch.setattr("sys.argv", ["x.py", "--key", KEY])

    def main(key: str) -> None:
        with open_run(tmp_path / "out.jsonl", {"key": key}, []) as output:
            output.write({"id": "a"})
            output.finish({"key": key})

    run(main)
    manifest = (tmp_path / "out.jsonl.manifest.json").read_text()
    assert KEY not in manifest and json.loads(manifest)["command"] == "python x.py --key '***'"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("http://me:pass@host:8000/v1", "http://host:8000/v1"),
        ("https://token@host", "https://host"),
        ("http://host:8000/a@b me@host", "http://host:8000/a@b me@host"),
        ("EMPTY", "EMPTY"),
    ],
)
def test_an_address_loses_user_and_password(text, left):
    assert masked(text) == left


def test_characters_that_steer_a_terminal_are_shown_as_escapes():
    assert str(UserError("a\x1b[2Jb\u202ec\n\td é")) == "a\\x1b[2Jb\\u202ec\n\td é"
