"""The Python blocks of the manual run, and so do the commands of its tutorial and of the pages that read its files."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.models.base import Completion
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import Task, Trajectory, read_records
from sweet_rl.training.examples import encode_trajectories
from sweet_rl.training.settings import DataSettings
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import ROOT, read_rows, write_rows
from tests.support.manual import blocks, commands, page_commands, run_command

FOLDERS = ("scripts", "visualizers", "configs", "docs", "lab")
SMALL = {
    "interview": {"num_tasks": 6},
    "make_mini_tasks": {"num_train": 4, "num_test": 2},
    "sample_best_of_n": {"best_of_n": 4, "data_fraction": 0.5},
    "generate_random_pairs_from_ranks": {"num_pairs": 1},
    "train_dpo": {"max_epochs": 1},
    "train_sft": {"max_epochs": 1},
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder that looks like the repository and takes the files that commands write; it is the current one."""
    for folder in FOLDERS:
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def run_python(text: str) -> None:
    exec(compile(text, "a block", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", ["safety.md", "api.md"])
def test_the_python_blocks_of_a_page_run_and_print_what_they_say(page, checkout, capsys):
    for language, text in blocks(ROOT / "docs" / page):
        assert language == "python"
        if "PageRenderer" in text:
            renderer_or_skip(workers=1).close()
        run_python(text)
        printed = capsys.readouterr().out.splitlines()
        assert printed
        for value in re.findall(r"^print\(.*\)  # ([\d.]+)(?:;|$)", text, re.MULTILINE):
            assert value in printed


def test_the_human_of_ones_own_in_the_manual_asks_its_model():
    asked = []

    class Model:
        async def complete(self, messages, sampling):
            asked.append((messages[0]["content"], sampling.seed))
            return [Completion("At most ten.", None, None, "stop")]

    domain, task = load_domain(str(ROOT / "docs/examples/interview.py")), Task("a fee", "a maximum")
    human = domain.make_human("any", Model(), domain.human_template())
    dialogue = [{"role": "user", "content": "I need it."}, {"role": "assistant", "content": "What is the most?"}]
    assert asyncio.run(human.reply(task, dialogue, 7)).text == "At most ten."
    assert "You said: a fee" in asked[0][0] and "about a maximum" in asked[0][0] and asked[0][1] == 7
    assert asked[0][0].endswith("user: I need it.\nassistant: What is the most?")


def test_rows_of_others_become_trajectories_whose_replies_are_trained(checkout):
    """The lines of files.md, on SFT's messages and on ShareGPT."""
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}]
    said += [{"role": "assistant", "content": "Both."}]
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    told = [{"from": names[one["role"]], "value": one["content"]} for one in said]
    rows = [{"messages": said, "reward": 0.5, "solution": "both"}, {"conversations": told}]
    write_rows(checkout / "rows.jsonl", rows)
    (text,) = (text for language, text in blocks(ROOT / "docs" / "files.md") if language == "python")
    run_python(text)
    first, second = read_records("dialogues.jsonl", Trajectory)
    assert [(one.reward, one.task.ground_truth) for one in (first, second)] == [(0.5, "both"), (1.0, "")]
    chat = ChatFormat.from_pretrained("mini")
    for text in encode_trajectories([first, second], chat, DataSettings()).texts:
        assert chat.decode(text.ids[text.train].tolist()) == "Both."


def test_the_block_of_integrations_that_needs_no_other_tool_prints_what_it_says(capsys):
    (text,) = (text for _, text in blocks(ROOT / "docs" / "integrations.md") if "turn_advantages" in text)
    run_python(text)
    assert f"# {capsys.readouterr().out.strip()}\n" in text


def test_the_domain_of_the_manual_rewards_what_was_asked():
    domain, task = load_domain(str(ROOT / "docs/examples/interview.py")), Task("p", "the price, a maximum")
    with domain.make_grader(CodeGrading()) as grader:
        answers = ["Is there a maximum?\nWhat is the rate?", "What is the most it can be?", "When?", None]
        assert [grade.reward for grade in grader.grade_many((task, answer) for answer in answers)] == [1.0, 0.5, 0, 0]
    assert domain.label_turn(task, [], "What is the rate?") == "useful"


@pytest.mark.slow
def test_a_domain_of_ones_own_goes_through_every_step_of_its_page(checkout):
    Path("runs/interview").mkdir(parents=True)
    for words in page_commands(ROOT / "docs" / "your_own_domain.md", "## Make it yours"):
        run_command(words, SMALL)
    labels = []
    for trajectory in read_records("runs/interview/trained.graded.jsonl", Trajectory):
        own = [message["oracle"] for message in trajectory.dialogue_history if message["role"] == "assistant"]
        assert (trajectory.reward > 0) == ("useful" in own)
        labels += own
    assert set(labels) == {"useful", "useless"}
    assert "useful" in Path("runs/interview/trained.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tutorial_and_what_reads_its_files_run(checkout):
    """Steps 1 to 8, the baselines and the viewer; then the check before training, and the page of critics."""
    Path("runs").mkdir()
    Path("runs/mini").symlink_to("tour")
    check = [(language, text) for language, text in blocks(ROOT / "docs" / "train.md") if "check_credit" in text]
    pages = [blocks(ROOT / "docs" / "tutorial.md"), check, blocks(ROOT / "docs" / "critics.md")]
    assert len(check) == 1
    for language, text in sum(pages, []):
        if language == "python":
            run_python(text)
        else:
            for _, words in commands(text):
                if words[0] == "python" and "scripts/chat.py" not in words:  # which a person types into
                    run_command(words, SMALL)
    ranked = read_rows(Path("runs/tour/ranked_with_rewards.jsonl"))
    answered = 0
    for row in ranked:
        answers, questions = [], []
        for text, score in zip(row["additional_outputs"], row["judge_scores"], strict=True):
            (answers if "I WANT TO ANSWER:" in text else questions).append(score)
        answered += len(answers)
        assert not questions or not any(min(questions) <= score <= max(questions) for score in answers)
    assert answered
