"""The domain of docs/your_own_domain.md through every step, by the commands of that page."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.runs.records import Task, Trajectory, read_records
from tests.support.command_line import ROOT, call

PAGE = ROOT / "docs" / "your_own_domain.md"
DOMAIN = ROOT / "docs" / "examples" / "interview.py"


def commands() -> list[list[str]]:
    """The words of the commands of the page about its example, in order."""
    text = PAGE.read_text(encoding="utf-8").partition("## Make it yours")[0]
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def test_the_domain_is_short_and_rewards_what_was_asked():
    assert len(DOMAIN.read_text(encoding="utf-8").splitlines()) <= 95
    domain = load_domain(str(DOMAIN))
    task = Task("p", "the price, a maximum")
    with domain.grader(None) as grader:
        answers = ["Is there a maximum?\nWhat is the rate?", "What is the most it can be?", "When?", None]
        assert [grade.reward for grade in grader.grade_many((task, answer) for answer in answers)] == [1.0, 0.5, 0, 0]
    assert domain.label_turn(task, [], "What is the rate?") == "useful"


@pytest.mark.slow
def test_the_commands_of_the_page_make_an_agent_that_has_learned(tmp_path, monkeypatch):
    """The commands run in this process, which saves each its imports."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    printed = ""
    for program, *words in commands():
        words = [word.replace("runs/interview", str(tmp_path)) for word in words]
        if program == "python":
            done = call(f"../{words[0]}", *words[1:])
            assert done.code == 0, f"{shlex.join(words)}\n{done.err[-4000:]}"
            printed += done.out
        else:
            assert program == "mkdir"
    untrained, trained = (
        json.loads((tmp_path / f"{name}.graded.jsonl.manifest.json").read_text())["summary"]["reward"]
        for name in ("untrained", "trained")
    )
    assert trained["mean"] > 1.25 * untrained["mean"] and trained["low"] > untrained["high"]
    assert "win rate" in printed
    words = [
        message["oracle"]
        for trajectory in read_records(tmp_path / "trained.graded.jsonl", Trajectory)
        for message in trajectory.dialogue_history
        if message["role"] == "assistant"
    ]
    assert set(words) == {"useful", "useless"}
    assert "useful" in (tmp_path / "trained.html").read_text(encoding="utf-8")
