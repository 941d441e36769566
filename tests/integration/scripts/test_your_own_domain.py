"""The domain of docs/your_own_domain.md through every step, by the commands of that page."""

from __future__ import annotations

import re
import shlex

import pytest

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.runs.records import Task, Trajectory, read_records
from tests.support.command_line import ROOT
from tests.support.manual import run_command

PAGE = ROOT / "docs" / "your_own_domain.md"
DOMAIN = ROOT / "docs" / "examples" / "interview.py"
# The figures of the page need its own numbers, which take half a minute.
SMALL = {"interview": {"num_tasks": 6}, "sample_best_of_n": {"best_of_n": 4}, "train_dpo": {"max_epochs": 1}}


def commands() -> list[list[str]]:
    """The words of the commands of the page about its example, in order."""
    text = PAGE.read_text(encoding="utf-8").partition("## Make it yours")[0]
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def test_the_domain_is_short_and_rewards_what_was_asked():
    assert len(DOMAIN.read_text(encoding="utf-8").splitlines()) <= 95
    domain = load_domain(str(DOMAIN))
    task = Task("p", "the price, a maximum")
    with domain.make_grader(CodeGrading()) as grader:
        answers = ["Is there a maximum?\nWhat is the rate?", "What is the most it can be?", "When?", None]
        assert [grade.reward for grade in grader.grade_many((task, answer) for answer in answers)] == [1.0, 0.5, 0, 0]
    assert domain.label_turn(task, [], "What is the rate?") == "useful"


@pytest.mark.slow
def test_the_commands_of_the_page_run_one_after_the_other(tmp_path, monkeypatch):
    """The commands run in this process, which saves each its imports."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    printed = ""
    for words in commands():
        if words[0] == "python":
            printed += run_command([word.replace("runs/interview", str(tmp_path)) for word in words], SMALL)
        else:
            assert words[0] == "mkdir"
    assert "win rate" in printed
    words = []
    for trajectory in read_records(tmp_path / "trained.graded.jsonl", Trajectory):
        said = [message for message in trajectory.dialogue_history if message["role"] == "assistant"]
        words += [message["oracle"] for message in said]
        assert (trajectory.reward > 0) == any(message["oracle"] == "useful" for message in said)
    assert set(words) == {"useful", "useless"}
    assert "useful" in (tmp_path / "trained.html").read_text(encoding="utf-8")
