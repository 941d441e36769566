"""The visualizers' command lines."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.support.command_line import write_rows
from tests.support.dialogues import graded

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "visualizers" / "visualize_dialogue_histories.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def command(*words) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )


def test_the_command_writes_a_page_and_keeps_what_it_would_not_replace(tmp_path):
    path, page = write_rows(tmp_path / "graded.jsonl", graded()), tmp_path / "graded.html"
    done = command("--input_path", path)
    assert done.returncode == 0 and "needs no network" in done.stdout
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    page.write_text("something else")
    refused = command("--input_path", path)
    assert refused.returncode == 2 and "--overwrite" in refused.stderr and page.read_text() == "something else"


def test_the_command_names_a_bad_line_and_writes_nothing(tmp_path):
    path = write_rows(tmp_path / "bad.jsonl", graded()[:1])
    with open(path, "a") as file:
        file.write('{"dialogue_history": []}\n')
    refused = command("--input_path", path)
    assert refused.returncode == 2 and "line 2" in refused.stderr and "'task'" in refused.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.jsonl"]


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    words = ["--input_path", write_rows(tmp_path / "graded.jsonl", graded()), "--serve", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *words], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background ignores it
    )  # fmt: skip
    try:
        address = re.match(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        with urllib.request.urlopen(address, timeout=30) as page:
            assert b'data-mode="served"' in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
