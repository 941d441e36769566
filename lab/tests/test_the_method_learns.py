"""The commands of docs/your_own_domain.md with their own numbers make an agent that is better than before."""

from __future__ import annotations

import json

from tests.support.command_line import ROOT
from tests.support.manual import page_commands, run_command


def test_the_method_as_the_page_runs_it_makes_a_better_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for words in page_commands(ROOT / "docs" / "your_own_domain.md", "## Make it yours"):
        run_command([word.replace("runs/interview", str(tmp_path)) for word in words], {})
    untrained, trained = (
        json.loads((tmp_path / f"{name}.graded.jsonl.manifest.json").read_text())["summary"]["reward"]
        for name in ("untrained", "trained")
    )
    assert trained["mean"] > 1.25 * untrained["mean"] and trained["low"] > untrained["high"]
