"""The visualizers' command lines."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

from tests.support.command_line import ROOT, call, write_rows
from tests.support.dialogues import graded

SCRIPT = "visualizers/visualize_dialogue_histories.py"


def test_the_command_writes_a_page_and_keeps_what_it_would_not_replace(tmp_path):
    path, page = write_rows(tmp_path / "graded.jsonl", graded()), tmp_path / "graded.html"
    done = call(f"../{SCRIPT}", input_path=path)
    assert done.code == 0, done.err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    page.write_text("something else")
    refused = call(f"../{SCRIPT}", input_path=path)
    assert refused.code == 2 and "--overwrite" in refused.err and page.read_text() == "something else"


def test_the_command_names_a_bad_line_and_writes_nothing(tmp_path):
    path = write_rows(tmp_path / "bad.jsonl", graded()[:1])
    with open(path, "a") as file:
        file.write('{"dialogue_history": []}\n')
    refused = call(f"../{SCRIPT}", input_path=path)
    assert refused.code == 2 and "line 2" in refused.err and "'task'" in refused.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.jsonl"]


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    words = ["--input_path", write_rows(tmp_path / "graded.jsonl", graded()), "--serve", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, ROOT / SCRIPT, *words], env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background ignores it
    )  # fmt: skip
    try:
        address = re.match(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        with urllib.request.urlopen(address, timeout=120) as page:
            assert b'data-mode="served"' in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    finally:
        process.kill()
