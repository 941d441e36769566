"""The launchers run_backend.sh and run_frontend.sh, and the commands of the README: each one is valid."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from sweet_rl.cli import parse_flags
from tests.support.command_line import call
from tests.unit.test_configs import ROOT, main_of

PROGRAMS = ("scripts", "visualizers")
RELEASED = ("--trajectories", "offline.jsonl", "--response_template", "<|start_header_id|>assistant<|end_header_id|>")


def parsed(words: list[str], monkeypatch) -> dict:
    """The settings of a script's command line as its parser reads it; a launcher before the script is left out."""
    monkeypatch.chdir(ROOT)
    place = next(i for i, word in enumerate(words) if word.endswith(".py") and word.split("/")[0] in PROGRAMS)
    script = words[place].removeprefix("scripts/").removesuffix(".py")
    return parse_flags(main_of(script if "/" not in script else f"../{script}"), words[place + 1 :])


def dry_run(launcher: str, *options: str) -> list[list[str]]:
    command = ["bash", f"scripts/{launcher}.sh", "--dry_run", *options]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [shlex.split(line[2:]) for line in output.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize(
    "launcher, options",
    [
        ("run_backend", ()),
        ("run_backend", ("--hostname", "n1,n2", "--agent_hostname", "n3:8001", "--num_tasks", "8", "--gpus", "4")),
        ("run_backend", (*RELEASED, "--gpus", "0", "--agent_prompt_path", "mini_agent.txt", "--seed", "7")),
        ("run_backend", ("--methods", "sweet", "--launcher", "deepspeed --hostfile hosts", "--gpus", "8")),
        ("run_frontend", ()),
        ("run_frontend", ("--critic", "log_ratio", "--hostname", "n1,n2", "--agent_hostname", "n3:8001")),
        ("run_frontend", ("--env_model", "designer", "--gpus", "0", "--image_encoder", "efficientnet-lite0")),
    ],
)
def test_every_command_of_the_dry_run_is_one_that_its_script_takes(launcher, options, monkeypatch):
    commands = dry_run(launcher, *options)
    assert len(commands) > 5
    for words in commands:
        parsed(words, monkeypatch)


def test_the_backend_launcher_chains_the_steps_of_the_method(monkeypatch):
    settings = [parsed(words, monkeypatch) for words in dry_run("run_backend", "--hostname", "n1", "--output", "/out")]
    scripts = [Path(next(word for word in words if word.endswith(".py"))).stem for words in dry_run("run_backend")]
    assert scripts == [
        *("simulate_interactions", "evaluate_code"),  # collect
        *("simulate_interactions", "evaluate_code"),  # zero-shot
        *("train_sft", "simulate_interactions", "evaluate_code"),
        *("train_dpo", "simulate_interactions", "evaluate_code"),
        *("train_dpo", "sample_best_of_n", "rank_best_of_n", "generate_random_pairs_from_ranks"),
        *("train_dpo", "simulate_interactions", "evaluate_code"),
        "compare_runs",
    ]
    critic, candidates, ranking, turn_pairs, actor = settings[10:15]
    assert critic["dataset"] == settings[1]["ground_truth_preference_path"]
    assert (ranking["model_id"], ranking["input_path"]) == (critic["save_path"], candidates["output_path"])
    assert (turn_pairs["input_path"], actor["dataset"]) == (ranking["output_path"], turn_pairs["output_path"])
    assert {setting["hostname"] for setting in settings if "env_model" in setting} == {"n1"}


def test_the_dry_run_shows_a_setting_once_with_the_value_that_counts():
    output = subprocess.run(
        ["bash", "scripts/run_backend.sh", "--dry_run", "--num_tasks", "8"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    collection = output.split("== ")[1]
    assert "--num_tasks 8" in collection and "num_tasks: 5000" not in collection
    assert "    temperature: 1.0" in collection


def test_the_frontend_launcher_chains_the_steps_of_the_method(monkeypatch):
    lines = dry_run("run_frontend", "--methods", "sweet", "--output", "/out")
    commands = [parsed(words, monkeypatch) for words in lines]
    collect, grade, _, _, critic, candidates, ranking, turn_pairs, actor, test, graded, results = commands
    assert (collect["task_type"], grade["input_path"]) == ("html", collect["output_path"])
    assert critic["dataset"] == candidates["input_path"] == grade["output_path"]
    assert (ranking["model_id"], ranking["input_path"]) == (critic["save_path"], candidates["output_path"])
    assert (turn_pairs["input_path"], actor["dataset"]) == (ranking["output_path"], turn_pairs["output_path"])
    assert (test["agent_model"], graded["input_path"]) == (actor["save_path"], test["output_path"])
    assert graded["image_encoder"] == grade["image_encoder"] and graded["output_path"] in results["runs"]


@pytest.mark.parametrize(
    "launcher, options",
    [
        ("run_backend", ("--unknown", "1")),
        ("run_backend", ("--hostname",)),
        ("run_backend", ("--methods", "ppo")),
        ("run_backend", ("stray",)),
        ("run_backend", ("--gpus", "0")),
        ("run_frontend", ("--critic", "judge")),
        ("run_frontend", ("--methods", "ppo")),
        ("run_frontend", ("--unknown", "1")),
        ("run_frontend", ("--gpus", "0")),
    ],
)
def test_a_bad_option_is_one_message_and_exit_code_2(launcher, options):
    command = ["bash", f"scripts/{launcher}.sh", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith(f"{launcher}.sh: ") and done.stderr.count("\n") == 1


def test_every_command_in_the_readme_is_one_that_its_script_takes(monkeypatch):
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    commands = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    scripts = [shlex.split(line, comments=True) for line in commands if "scripts/" in line and ".py" in line]
    assert len(scripts) > 10
    for words in scripts:
        parsed(words, monkeypatch)


@pytest.mark.slow
def test_the_pipeline_runs_on_the_tiny_agent_and_runs_again_without_work(tmp_path, monkeypatch):
    """The launcher's commands run in this process, which saves their imports; test_run_mini.py runs all of one."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    agent = shutil.copytree(ROOT / "sweet_rl" / "models" / "packaged" / "mini", tmp_path / "agent")
    made = call("make_mini_tasks.py", num_train=16, num_test=4, output_dir=tmp_path)
    assert made.code == 0, made.err
    out = tmp_path / "out"
    commands = dry_run(
        "run_backend", "--agent_model", str(agent), "--env_model", "mini", "--agent_prompt_path", "mini_agent.txt",
        "--gpus", "0", "--engine", "transformers", "--train_tasks", str(tmp_path / "train.jsonl"),
        "--test_tasks", str(tmp_path / "test.jsonl"), "--output", str(out),
    )  # fmt: skip
    for expected in (False, True):
        for words in commands:
            done = call(f"../{words[1]}", *words[2:])
            assert done.code == 0, f"{shlex.join(words)}\n{done.err[-2000:]}"
            if "compare_runs" not in words[1]:
                assert ("already complete" in done.out) is expected, words
    results = json.loads((out / "results.json").read_text())
    assert [row["name"] for row in results["runs"]] == [
        *("zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL")
    ]
