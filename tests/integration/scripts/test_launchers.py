"""The recipes run_mini.sh, run_backend.sh and run_frontend.sh: each command is valid.

The recipes' commands are those of the workflow, which test_reproduce.py runs; here they are only listed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from sweet_rl.cli import parse_flags
from tests.unit.test_configs import ROOT, main_of

PROGRAMS = ("scripts", "visualizers")
PLACES = ("agent_engine", "engine")  # of agents: auto, unless the workflow is told otherwise


def parsed(words: list[str], monkeypatch) -> dict:
    """The settings of a script's command line as its parser reads it; a launcher before the script is left out."""
    monkeypatch.chdir(ROOT)
    place = next(i for i, word in enumerate(words) if word.endswith(".py") and word.split("/")[0] in PROGRAMS)
    script = words[place].removeprefix("scripts/").removesuffix(".py")
    return parse_flags(main_of(script if "/" not in script else f"../{script}"), words[place + 1 :])


def listed(recipe: str, place: Path, *words: str, **variables: str) -> tuple[list, subprocess.CompletedProcess]:
    """The commands of a recipe, noted by programs that stand for python and torchrun."""
    (place / "bin").mkdir(exist_ok=True, parents=True)
    for name in ("python", "torchrun"):
        program = place / "bin" / name
        note = f"{{ printf '%q ' {name} \"$@\"; echo; }} >>{place}/commands"
        program.write_text(f'#!/bin/bash\n[ "$1" = -c ] || {note}\n')
        program.chmod(0o755)
    (place / "bin" / "activate").touch()  # a virtual environment, which is not entered
    environment = os.environ | {"PATH": f"{place}/bin:{os.environ['PATH']}", "SWEET_RL_VENV": str(place)} | variables
    command = ["bash", ROOT / "scripts" / f"{recipe}.sh", *words]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=60)
    noted = (place / "commands").read_text().splitlines() if (place / "commands").exists() else []
    return [shlex.split(line) for line in noted], done


def test_the_backend_recipe_goes_on_from_dialogues_that_exist(tmp_path):
    commands, done = listed("run_backend", tmp_path, OUT="/out", DIALOGUES="mine.jsonl")
    assert done.returncode == 0, done.stderr
    assert commands[0][1:4] == ["scripts/evaluate_code.py", "--input_path", str(tmp_path / "mine.jsonl")]
    commands, _ = listed("run_backend", tmp_path / "hub", OUT="/out", DIALOGUES="colbench/backend/offline")
    assert commands[0][3] == "colbench/backend/offline"


@pytest.mark.parametrize(
    ("recipe", "words", "target"),
    [
        ("run_mini", (), ("table2", "--seeds", "1")),
        ("run_mini", ("--smoke",), ("table2", "--seeds", "1", "--smoke")),
        ("run_backend", (), ("table2", "--paper", "--hostname", "n1:8000")),
        ("run_frontend", (), ("table2", "--paper", "--frontend_hostname", "n1:8000")),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else value,
)
def test_the_commands_of_a_recipe_are_those_of_the_workflow(recipe, words, target, tmp_path, monkeypatch):
    """They have the same settings and read and write files of the same names, in the order of the paper."""
    from tests.integration.scripts.test_reproduce import dry_run

    commands, done = listed(recipe, tmp_path, *words, OUT="/out", HUMAN_SERVER="n1:8000")
    assert done.returncode == 0, done.stderr
    untrained = ("mini", "Llama-3.1-8B-Instruct")
    names = {f"{one}.{kind}.jsonl": f"zero_shot.{kind}.jsonl" for one in untrained for kind in ("test", "graded")}
    names |= {"value_critic": "critic"}
    agents = {"sweet_rl/models/packaged/mini": "mini"}

    def plain(command: list[str], place: str) -> tuple:
        """(launcher, script, settings), with the names of files that both have."""
        settings = {k: v for k, v in parsed(command, monkeypatch).items() if k not in PLACES}
        for key, value in settings.items():
            if isinstance(value, str) and value.startswith(place):
                name = value.removeprefix(place).removeprefix("/")
                settings[key] = names.get(name, name)
            elif isinstance(value, str):
                settings[key] = agents.get(value, value.replace(f"{tmp_path}/", "").replace(f"{ROOT}/", ""))
        script = next(word for word in command if word.endswith(".py"))
        return command[: command.index(script)], script, settings

    folder = "/out/seed0/frontend" if recipe == "run_frontend" else "/out/seed0"
    known = [plain(command, folder) for _, command in dry_run(*target, "--output", "/out")]
    if recipe == "run_mini":
        known = [(a, b, {k: str(v).replace("/out/tasks", "tasks") for k, v in c.items()}) for a, b, c in known]
    found = [plain(command, "/out") for command in commands]
    if recipe == "run_mini":
        found = [(a, b, {k: str(v) for k, v in c.items()}) for a, b, c in found]
        known = [(a, b, {k: v for k, v in c.items() if k != "task_type" or "tasks" not in b}) for a, b, c in known]
    assert [one for one in found[:-1] if one not in known] == []
    assert "compare_runs" in found[-1][1]
    steps = [Path(script).stem for _, script, _ in found if "make_mini" not in script]
    played = ["simulate_interactions", "evaluate_html" if recipe == "run_frontend" else "evaluate_code"]
    critic = "train_value" if recipe == "run_frontend" else "train_dpo"
    assert steps == [
        *played, "train_sft", "train_dpo", critic, "sample_best_of_n", "rank_best_of_n",
        "generate_random_pairs_from_ranks", "train_dpo", *4 * played, "compare_runs",
    ]  # fmt: skip


@pytest.mark.parametrize("recipe", ["run_backend", "run_frontend"])
def test_a_recipe_takes_tasks_by_their_names_on_the_hub_and_a_path_that_exists_is_that_path(recipe, tmp_path):
    def tasks(**variables: str) -> list[str]:
        (tmp_path / "commands").unlink(missing_ok=True)
        commands, done = listed(recipe, tmp_path, OUT="/out", **variables)
        assert done.returncode == 0, done.stderr
        played = [words for words in commands if "scripts/simulate_interactions.py" in words]
        return [words[words.index("--input_path") + 1] for words in played]

    train, test = "colbench/backend/train", "hf://datasets/owner/name@v1/test.jsonl"
    assert tasks(TRAIN_TASKS=train, TEST_TASKS=test) == [train, *4 * [test]]
    (tmp_path / "colbench" / "backend").mkdir(parents=True)
    (tmp_path / train).touch()
    assert tasks(TRAIN_TASKS=train, TEST_TASKS="a.jsonl") == [f"{tmp_path}/{train}", *4 * [f"{tmp_path}/a.jsonl"]]


@pytest.mark.parametrize("words", [["--smok"], ["--seeds", "3"]], ids=" ".join)
def test_an_unknown_option_of_the_mini_recipe_is_named_and_nothing_is_done(words, tmp_path):
    commands, done = listed("run_mini", tmp_path, *words)
    assert done.returncode == 2 and words[0] in done.stderr and commands == []


def test_shell_scripts_are_clean_and_short():
    scripts = sorted((ROOT / "scripts").glob("*.sh"))
    lines = {path: len(path.read_text().splitlines()) for path in scripts}
    assert sum(lines.values()) < 300
    workflow = [path for path in (ROOT / "workflow").iterdir() if path.is_file()]
    assert sum(lines.values()) + sum(len(path.read_text().splitlines()) for path in workflow) < 850
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck: apt-get install -y shellcheck")
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
