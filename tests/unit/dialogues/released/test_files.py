"""The texts of the released protocol: from a folder or downloaded once, and never with another hash."""

from __future__ import annotations

import hashlib
import http.server
import threading

import pytest

from sweet_rl.dialogues.released import files as protocol_files
from sweet_rl.dialogues.released.files import ProtocolFile, copies_folder, protocol_text, text_values
from sweet_rl.runs.errors import UserError

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
    monkeypatch.setattr(protocol_files, "ADDRESS", f"http://127.0.0.1:{server.server_port}")
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
    (copies_folder() / FILE.path).rename(copies_folder() / "another")
    assert protocol_text(FILE) == TEXT
    assert "CC-BY-NC" not in capsys.readouterr().out, "said with the first file only"
    assert asked == 2 * [f"/{protocol_files.REPOSITORY}/{protocol_files.COMMIT}/prompts/own.txt"]


def test_another_hash_is_refused_and_not_kept(hub):
    _, content = hub
    content["text"] = TEXT + " "
    with pytest.raises(UserError, match="its SHA-256 is"):
        protocol_text(FILE)
    assert not (copies_folder() / FILE.path).exists()


def test_a_copy_that_was_changed_is_refused(hub):
    protocol_text(FILE)
    (copies_folder() / FILE.path).write_text("other")
    with pytest.raises(UserError, match="is not the file of the released protocol"):
        protocol_text(FILE)


def test_a_file_that_its_commit_alone_fixes_is_kept_with_the_hash_of_its_first_copy(hub):
    asked, content = hub
    file = ProtocolFile("prompts/own.txt", None)
    assert protocol_text(file) == TEXT == protocol_text(file) and len(asked) == 1
    (copies_folder() / file.path).write_text("other")
    with pytest.raises(UserError, match="is not the file of the released protocol"):
        protocol_text(file)
    (copies_folder() / file.path).unlink()
    assert protocol_text(file) == TEXT and len(asked) == 2


def test_a_folder_holds_the_files_under_their_paths(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/own.txt").write_text(TEXT)
    assert protocol_text(FILE, str(tmp_path)) == TEXT
    (tmp_path / "prompts/own.txt").write_text("other")
    with pytest.raises(UserError, match="its SHA-256 is"):
        protocol_text(FILE, str(tmp_path))
    with pytest.raises(UserError, match="--protocol_files: .*cannot be read"):
        protocol_text(FILE, str(tmp_path / "none"))


def test_without_a_network_the_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(protocol_files, "ADDRESS", "http://127.0.0.1:1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match="cannot be downloaded.*--protocol_files"):
        protocol_text(FILE)


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
    with pytest.raises(ValueError, match="there is no function gone"):
        text_values(source, "gone")
