"""Every code block of README and manual: Python runs, commands that take seconds run on small sizes, all others are
read by the parsers that they would meet."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scripts import COMMANDS
from sweet_rl.errors import UserError
from sweet_rl.mini.tasks import make_tasks
from sweet_rl.records import Task, read_records
from tests.support.api_server import MODEL, ApiServer
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import ROOT, call, read_rows, write_rows
from tests.support.manual import FOLDERS, PAGES, blocks, commands
from tests.support.other_tools import plays_colbench

pytest.importorskip("sybil", reason="needs: pip install -e '.[test]'")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def language(example) -> str:
    return example.region.lexemes["arguments"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder that looks like the repository and takes the files that commands write; it is the current one."""
    for folder in FOLDERS:
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_that_is_not_python_is_one_that_its_reader_takes(page, checkout):
    for kind in ("train", "test"):
        (checkout / f"{kind}.jsonl").touch()
    examples = blocks(page)
    for example in examples:
        if language(example) != "python":
            example.evaluate()


WRONG = {
    "python scripts/train_dpo.py --learning_rat 1e-4": "learning_rat",
    "python scripts/rank_best_of_n.py --model_id m --input_path a --output_path b --critic_type oracle": "critic_type",
    "python scripts/simulate_interactions.py --agent_model m --best_of_n three": "best_of_n",
    "python scripts/evaluate_code.py --task_type cooking --input_path a --output_path b": "cooking",
    "torchrun --nproc_per_node 2 scripts/train_dpo.py --config configs/mini/none.yaml": "none.yaml",
    "python scripts/no_script.py": "no_script",
    "sweet-rl rank --modle_id m": "modle_id",
    "python -m pytest tests/unit/no_test.py": "no_test",
    "NUM_TRIAN=4 bash scripts/run_mini.sh": "NUM_TRIAN",
    "bash scripts/run_mini.sh --smok": "smok",
    "bash scripts/reproduce.sh table9": "table9",
    "doit steps:seed0/no_step": "no_step",
    "pip install -e '.[gpu]'": "gpu",
    "pip install transformers==4.0.0": "transformers",
    "inspect eval sweet_rl/backend": "sweet_rl/backend",
    "npm run build": "npm",
}


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_command_is_found(command, checkout):
    (checkout / "page.md").write_text(f"```bash\n{command}\n```\n")
    (example,) = blocks(checkout / "page.md")
    with pytest.raises((AssertionError, UserError), match=re.escape(WRONG[command])):
        example.evaluate()


@pytest.mark.parametrize("fence", ["```", "```console"])
def test_a_block_of_no_known_language_is_found(fence, tmp_path):
    (tmp_path / "page.md").write_text(f"```bash\nmkdir a\n```\n\n{fence}\n$ ls\n```\n")
    with pytest.raises(ValueError, match="none of the languages"):
        blocks(tmp_path / "page.md")


@pytest.mark.parametrize("page", ["grading_safely.md", "rendering_safely.md"])
def test_the_python_blocks_of_a_page_run_and_print_what_they_say(page, checkout, capsys):
    if page == "rendering_safely.md":
        renderer_or_skip(workers=1).close()
    for example in blocks(ROOT / "docs" / page):
        example.evaluate()
        printed = capsys.readouterr().out.splitlines()
        assert printed
        for value in re.findall(r"^print\(.*\)  # ([\d.]+)(?:;|$)", example.parsed, re.MULTILINE):
            assert value in printed


def test_no_other_page_has_python_blocks():
    found = {page.name for page in PAGES if any(language(example) == "python" for example in blocks(page))}
    assert found == {"grading_safely.md", "rendering_safely.md", "critics.md"}  # critics.md is in RUN


# The sections whose commands are run, in this order and in one folder; None is the whole page.
RUN = {
    "tutorial.md": None,
    "viewers.md": None,
    "critics.md": None,
    "installed_command.md": None,
    "quickstart.md": "Then look at the dialogues",
}
SMALL = {"num_train": 8, "num_test": 4, "best_of_n": 4, "num_pairs": 1, "max_epochs": 1}
ADDED = {"make_mini_tasks": ("num_train", "num_test"), "train_dpo": ("max_epochs",), "train_sft": ("max_epochs",)}


def small(script: str, flags: list[str]) -> list[str]:
    """The flags with numbers that are at most those of SMALL; without a number of tasks or epochs, one is added."""
    words = list(flags)
    for name, most in SMALL.items():
        if f"--{name}" in words:
            place = words.index(f"--{name}") + 1
            words[place] = str(min(int(words[place]), most))
        elif name in ADDED.get(script, ()):
            words += [f"--{name}", str(most)]
    return words


def run(words: list[str]) -> None:
    """Run a command of the manual in this process, which saves its imports."""
    if words[0] == "sweet-rl":
        words = ["python", f"scripts/{COMMANDS[words[1]]}.py", *words[2:]]
    if words[0] != "source":
        program, script, *flags = words
        assert program == "python"
        done = call(f"../{script}", *small(Path(script).stem, flags))
        assert done.code == 0, f"{shlex.join(words)}\n{done.out}\n{done.err}"


@pytest.mark.slow
def test_the_commands_of_the_tutorial_and_what_reads_its_files_run(checkout):
    Path("runs").mkdir()
    Path("runs/mini").symlink_to("tour")
    for page, heading in RUN.items():
        examples = blocks(ROOT / "docs" / page)
        if heading:
            start = examples[0].document.text.index(heading)
            examples = [example for example in examples if example.region.start > start][:1]
        for example in examples:
            if language(example) == "python":
                example.evaluate()
            else:
                for _, words in commands(example.parsed):
                    run(words)
    ranked = read_rows(Path("runs/tour/ranked_with_rewards.jsonl"))
    assert all(row["judge_scores"][row["judge_result"][0]] == max(row["judge_scores"]) for row in ranked)
    scores = [score for row in ranked for score in row["judge_scores"]]
    assert -1000 in scores and any(abs(score) < 1000 for score in scores)  # answers, and questions


def test_a_server_is_evaluated_by_the_commands_of_its_page(checkout):
    """A real server stands for both models: the agent hands in the reference for the first task only."""
    write_rows(checkout / "tasks.jsonl", make_tasks(2, seed=4))
    example, _of_pages = blocks(ROOT / "docs" / "your_own_model.md")
    with ApiServer(plays_colbench(list(read_records(checkout / "tasks.jsonl", Task)))) as server:
        there = {"localhost:8000": server.url, "localhost:8001": server.url, "MODEL": MODEL, "HUMAN": MODEL}
        there |= {"colbench/backend/test": "tasks.jsonl"}
        for _, words in commands(example.parsed):
            run([there.get(word, word) for word in words])
    assert [row["reward"] for row in read_rows(Path("runs/mine/graded.jsonl"))] == [1.0, 0.0]
