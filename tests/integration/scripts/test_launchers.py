"""The recipes run_mini.sh, run_backend.sh and run_frontend.sh: each command is valid and finds its inputs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sweet_rl.runs.cli import parse_flags
from tests.unit.test_configs import ROOT, main_of

PROGRAMS = ("scripts", "visualizers")
WRITTEN = ("output_dir", "output_path", "preference_path", "ground_truth_preference_path", "save_path")


def parsed(words: list[str], monkeypatch) -> dict:
    """The settings of a script's command line as its parser reads it; a launcher before the script is left out."""
    monkeypatch.chdir(ROOT)
    if "-m" in words:
        place = words.index("-m") + 1
        return parse_flags(main_of(f"{words[place].replace('.', '/')}.py"), words[place + 1 :])
    place = next(i for i, word in enumerate(words) if word.endswith(".py") and word.split("/")[0] in PROGRAMS)
    return parse_flags(main_of(words[place]), words[place + 1 :])


def stand_in(place: Path, script: str, recipe: str, **variables: str) -> tuple[list, dict[str, str]]:
    """The command of a recipe and an environment in which `script` stands for python and torchrun.

    The script notes the command in the file `commands`, except for `python -c`, and then runs what it is given.
    """
    (place / "bin").mkdir(exist_ok=True, parents=True)
    (place / "bin" / "hf").write_text("#!/bin/bash\n")
    (place / "bin" / "hf").chmod(0o755)
    for name in ("python", "torchrun"):
        program = place / "bin" / name
        # In one write, because two lanes note at the same time.
        note = f'line=$(printf \'%q \' {name} "$@"); echo "$line" >>{place}/commands'
        program.write_text(f'#!/bin/bash\ncase "$*" in -c* | "-m pip check") exit ;; esac\n{note}\n{script}\n')
        program.chmod(0o755)
    (place / "bin" / "activate").touch()  # a virtual environment, which is not entered
    path = f"{place}/bin:{os.environ['PATH']}"
    return ["bash", ROOT / "scripts" / f"{recipe}.sh"], os.environ | {
        "PATH": path,
        "SWEET_RL_VENV": str(place),
    } | variables


def noted(place: Path) -> list[list[str]]:
    """The commands that stood-in programs have noted, in the order in which they began."""
    return [shlex.split(line) for line in (place / "commands").read_text().splitlines()]


def listed(recipe: str, place: Path, *words: str, **variables: str) -> tuple[list, subprocess.CompletedProcess]:
    """The commands of a recipe, noted by programs that stand for python and torchrun."""
    command, environment = stand_in(place, "", recipe, **variables)
    done = subprocess.run([*command, *words], cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    return noted(place) if (place / "commands").exists() else [], done


@pytest.mark.parametrize("recipe", ["run_mini", "run_backend", "run_frontend"])
def test_the_commands_of_a_recipe_are_valid_and_none_begins_before_its_inputs(recipe, tmp_path, monkeypatch):
    given = {"HUMAN_SERVER": "n1:8000", "TRAIN_TASKS": "a.jsonl", "TEST_TASKS": "b.jsonl"}
    commands, done = listed(recipe, tmp_path, **given, OUT=str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    names = [Path(next(word for word in command if word.endswith(".py"))).stem for command in commands]
    settings = [parsed(command, monkeypatch) for command in commands]
    outputs = [{str(one[key]) for key in WRITTEN if key in one} for one in settings]
    for number, one in enumerate(settings):  # run_mini.sh has two lanes
        assert not set(map(str, one.values())) & set().union(*outputs[number + 1 :])
    played = ["simulate_interactions", "evaluate_html" if recipe == "run_frontend" else "evaluate_code"]
    critic = "train_value" if recipe == "run_frontend" else "train_dpo"
    policies = 2 if recipe == "run_backend" else 1  # by PMI too
    by_turns = ["rank_best_of_n", "generate_random_pairs_from_ranks", "train_dpo"]
    others = ["make_mini_tasks", "visualize_dialogue_histories"] if recipe == "run_mini" else []
    assert sorted(names) == sorted([
        *played, "train_sft", "train_dpo", critic, "sample_best_of_n", *policies * by_turns,
        *(3 + policies) * played, "compare_runs", *others,
    ])  # fmt: skip


# In place of two lanes of run_mini.sh: candidates without an end, and a baseline that ends once these have begun.
SAMPLING_HAS_BEGUN = """case "$*" in
    *configs/mini/sampling.yaml*) echo $$ >sampling.pid && exec sleep 600 ;;
    *configs/mini/rejection_fine_tuning.yaml*) until [ -s sampling.pid ]; do sleep 0.05; done; %s ;;
esac"""


def has_ended(process: Path) -> bool:
    try:
        os.kill(int(process.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


def test_a_step_that_fails_shows_its_cause_and_ends_the_recipe(tmp_path):
    command, environment = stand_in(
        tmp_path, 'case "$*" in *critic.yaml*) echo no pairs >&2; exit 2 ;; esac', "run_mini", OUT=str(tmp_path / "out")
    )
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "critic failed" in done.stderr and "no pairs" in done.stderr
    assert not [words for words in noted(tmp_path) if "scripts/rank_best_of_n.py" in words]


def test_a_recipe_that_is_ended_ends_its_lanes_and_the_same_command_goes_through_all_steps(tmp_path):
    waits = (
        SAMPLING_HAS_BEGUN.replace("sampling.pid", f"{tmp_path}/sampling.pid")
        % f"touch {tmp_path}/both; exec sleep 600"
    )
    command, environment = stand_in(tmp_path, waits, "run_mini", OUT=str(tmp_path / "out"))
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as recipe:
        while not (tmp_path / "both").exists():
            assert recipe.poll() is None
            time.sleep(0.05)
        recipe.send_signal(signal.SIGTERM)
        assert recipe.wait(timeout=300) == 128 + signal.SIGTERM
    assert has_ended(tmp_path / "sampling.pid")
    (tmp_path / "commands").unlink()
    commands, done = listed("run_mini", tmp_path, OUT=str(tmp_path / "out"))
    assert done.returncode == 0 and len(commands) == 20, done.stderr


@pytest.mark.parametrize("recipe", ["run_mini", "run_backend", "run_one_gpu", "run_frontend"])
def test_an_unknown_option_is_named_help_is_the_head_of_the_recipe_and_nothing_is_done(recipe, tmp_path):
    for words, named in ((["--seeds", "3"], "unknown option --seeds 3"), (["--smoke"], "unknown option --smoke")):
        commands, done = listed(recipe, tmp_path, *words)
        assert done.returncode == 2 and f"{recipe}.sh: {named}" in done.stderr and commands == []
    commands, done = listed(recipe, tmp_path, "--help")
    assert done.returncode == 0 and f"bash scripts/{recipe}.sh" in done.stdout and "#" not in done.stdout
    assert commands == [] and {path.name for path in tmp_path.iterdir()} == {"bin"}


def test_shell_scripts_are_clean():
    scripts = [*ROOT.glob("scripts/*.sh"), *ROOT.glob("lab/**/*.sh")]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
