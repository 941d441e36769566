"""The domain of docs/your_own_domain.md through every step, by the commands of that page on fewer tasks."""

from __future__ import annotations

import json

import pytest

from sweet_rl.records import Task, Trajectory, read_records
from sweet_rl.task_types import load_domain
from tests.support.command_line import ROOT
from tests.support.manual import blocks, commands, run_command

DOMAIN = ROOT / "docs" / "examples" / "interview.py"
SMALL = {
    "interview": {"num_tasks": 16},
    "simulate_interactions": {"best_of_n": 2},
    "train_dpo": {"max_epochs": 2, "learning_rate": 8e-4, "train_batch_size": 8},
}


def test_the_domain_rewards_what_was_asked():
    domain = load_domain(str(DOMAIN))
    task = Task("p", "the price, a maximum")
    with domain.grader(None) as grader:
        answers = ["Is there a maximum?\nWhat is the rate?", "What is the most it can be?", "When?", None]
        assert [grade.reward for grade in grader.grade_many((task, answer) for answer in answers)] == [1.0, 0.5, 0, 0]
    assert domain.label_turn(task, [], "What is the rate?") == "useful"


@pytest.mark.slow
def test_the_commands_of_the_page_make_an_agent_that_has_learned(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    printed = ""
    for language, text in blocks(ROOT / "docs" / "your_own_domain.md"):
        for _, words in commands(text) if language == "bash" else ():
            if words[0] == "python":  # not those for eight GPUs
                printed += run_command([word.replace("runs/interview", str(tmp_path)) for word in words], SMALL)
    untrained, trained = (
        json.loads((tmp_path / f"{name}.graded.jsonl.manifest.json").read_text())["summary"]["reward"]
        for name in ("untrained", "trained")
    )
    assert trained["mean"] > untrained["high"] and "win rate" in printed
    trajectories = read_records(tmp_path / "trained.graded.jsonl", Trajectory)
    said = [message for one in trajectories for message in one.dialogue_history if message["role"] == "assistant"]
    assert {message["oracle"] for message in said} == {"useful", "useless"}
    assert "useful" in (tmp_path / "trained.html").read_text(encoding="utf-8")
