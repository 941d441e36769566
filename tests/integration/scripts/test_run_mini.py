"""`bash scripts/run_mini.sh --smoke`: every step of the pipeline on a handful of tasks, and the same command again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, contents

RUNS = ["zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.prefix == sys.base_prefix, reason="not in a virtual environment, and the script would make one of its own"
    ),
    pytest.mark.skipif(
        not (ROOT / "sweet_rl" / "models" / "packaged" / "mini" / "config.json").is_file(),
        reason="no packaged tiny agent",
    ),
]


def run_mini(*words: str | Path, limit: int = 1800) -> subprocess.CompletedProcess:
    environment = {**os.environ, "SWEET_RL_VENV": sys.prefix, "OMP_NUM_THREADS": "1"}
    words = ["bash", ROOT / "scripts" / "run_mini.sh", *words]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=limit)


def table(out: str) -> str:
    """What is printed from the heading of the results on, without the time that it took."""
    return re.sub(r"; \d+ s in all", "", out[out.index("== results") :])


def records(folder: Path) -> dict:
    """The contents of all files but those that tell how each call went: the logs of what runs beside, the times."""
    told = (".log", "times.jsonl")
    return {name: content for name, content in contents(folder).items() if not str(name).endswith(told)}


def test_every_step_runs_and_the_same_command_again_passes_over_everything(tmp_path):
    first = run_mini("--smoke", "--output", tmp_path / "out")
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-3000:]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(results["files"]) == RUNS
    for name in RUNS:
        assert name in table(first.stdout) and name in (tmp_path / "out" / "results.md").read_text()
    before = records(tmp_path / "out")

    again = run_mini("--smoke", "--output", tmp_path / "out")
    assert again.returncode == 0, again.stderr[-3000:]
    assert table(again.stdout) == table(first.stdout)
    assert records(tmp_path / "out") == before
    steps = re.findall(r"^== (?!results)(.*)$", again.stdout, re.MULTILINE)
    assert len(steps) == len(re.findall(r"^== (?!results)", first.stdout, re.MULTILINE)) >= 15
    for text in again.stdout.partition("== results")[0].split("\n== ")[1:]:
        assert "already complete" in text, text


@pytest.mark.parametrize("words", [["--smok"], ["--seeds"], ["--output"]], ids=" ".join)
def test_an_unknown_option_is_named_and_nothing_is_done(words, tmp_path):
    done = run_mini(*words, limit=60)
    assert done.returncode != 0 and words[0] in done.stderr and done.stdout == ""
