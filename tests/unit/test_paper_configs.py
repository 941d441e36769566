"""The paper's settings, file by file, and the commands that use them: run_backend.sh and those of the README."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from sweet_rl.cli import parse_flags
from sweet_rl.records import Trajectory, read_records

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "configs" / "paper" / "backend"
LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
DIALOGUES = {
    "env_model": LLAMA_70B,
    "task_type": "code",
    "max_turns": 10,
    "temperature": 1.0,
    "max_tokens": 1024,
    "env_temperature": 0.0,
    "env_max_chars": 400,
}
TRAINING = {"pretrain": LLAMA_8B, "learning_rate": 2e-7, "bf16": True, "zero_stage": 3}
PREFERENCES = TRAINING | {"beta": 0.1, "nll_loss_coef": 0.01, "train_batch_size": 8}
VALUES = TRAINING | {"train_batch_size": 8, "max_epochs": 4, "max_len": 8192}
FIGURES = {  # the paper's figures: the method, Table 5, and the collection of ColBench
    "collection": DIALOGUES | {"agent_model": LLAMA_8B, "best_of_n": 3, "num_tasks": 5000},
    "evaluation": DIALOGUES | {"best_of_n": 1, "num_tasks": 1000},
    "rejection_fine_tuning": TRAINING | {"train_batch_size": 32, "max_epochs": 4, "max_len": 16384, "min_reward": 1.0},
    "multi_turn_dpo": PREFERENCES | {"normalize": "none", "max_epochs": 4, "max_len": 16384},
    "critic": PREFERENCES | {"normalize": "turn", "max_epochs": 4, "max_len": 8192},
    "sampling": {
        "model_id": LLAMA_8B,
        "best_of_n": 16,
        "data_fraction": 0.1,
        "temperature": 1.0,
        "max_tokens": 1024,
    },
    "ranking": {"reference": "seed", "reference_model_id": LLAMA_8B, "normalize": "turn", "bf16": True},
    "turn_pairs": {"num_pairs": 4},
    "actor": PREFERENCES | {"normalize": "none", "max_epochs": 1, "max_len": 16384},
    "single_turn": DIALOGUES
    | {"best_of_n": 1, "num_tasks": 1000, "max_turns": 1, "agent_prompt_path": "code_agent_single_turn.txt"},
    "value_critic": VALUES | {"objective": "preference", "beta": 0.1},
    "value_function": VALUES | {"objective": "classification"},
    "value_ranking": {"critic_type": "value", "bf16": True},
}
PROGRAMS = ("scripts", "visualizers")
SCRIPTS = {
    "collection": "simulate_interactions",
    "evaluation": "simulate_interactions",
    "rejection_fine_tuning": "train_sft",
    "multi_turn_dpo": "train_dpo",
    "critic": "train_dpo",
    "sampling": "sample_best_of_n",
    "ranking": "rank_best_of_n",
    "turn_pairs": "generate_random_pairs_from_ranks",
    "actor": "train_dpo",
    "single_turn": "simulate_interactions",
    "value_critic": "train_value",
    "value_function": "train_value",
    "value_ranking": "rank_best_of_n",
}
PATHS = {
    "simulate_interactions": ["--input_path", "a", "--output_path", "b"],
    "train_sft": ["--dataset", "a", "--save_path", "b"],
    "train_dpo": ["--dataset", "a", "--save_path", "b"],
    "train_value": ["--dataset", "a", "--save_path", "b"],
    "sample_best_of_n": [],
    "rank_best_of_n": ["--model_id", "c", "--input_path", "a", "--output_path", "b"],
    "generate_random_pairs_from_ranks": ["--input_path", "a", "--output_path", "b"],
}


@cache
def main_of(script: str):
    return runpy.run_path(str(ROOT / "scripts" / f"{script}.py"))["main"]


def parsed(words: list[str], monkeypatch) -> dict:
    """The settings of one command line of a script, as its parser takes it; any launcher before it is left out."""
    monkeypatch.chdir(ROOT)
    place = next(i for i, word in enumerate(words) if word.endswith(".py") and word.split("/")[0] in PROGRAMS)
    script = words[place].removeprefix("scripts/").removesuffix(".py")
    return parse_flags(main_of(script if "/" not in script else f"../{script}"), words[place + 1 :])


def dry_run(*options: str) -> list[list[str]]:
    command = ["bash", "scripts/run_backend.sh", "--dry_run", *options]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [shlex.split(line[2:]) for line in output.splitlines() if line.startswith("$ ")]


def test_every_file_is_held_to_the_papers_figures():
    assert {path.stem for path in PAPER.glob("*.yaml")} == FIGURES.keys() == SCRIPTS.keys()


@pytest.mark.parametrize("name", FIGURES)
def test_settings_are_the_papers_and_their_script_takes_them(name):
    script = SCRIPTS[name]
    command = [*PATHS[script], "--config", str(PAPER / f"{name}.yaml")]
    if name in ("evaluation", "single_turn"):
        command += ["--agent_model", "the trained policy"]
    settings = parse_flags(main_of(script), command)
    assert {key: settings[key] for key in FIGURES[name]} == FIGURES[name]
    unnamed = yaml.safe_load((PAPER / f"{name}.yaml").read_text()).keys() - FIGURES[name].keys()
    assert unnamed <= {"micro_train_batch_size", "gradient_checkpointing"}  # pace, not result


RELEASED = ("--trajectories", "offline.jsonl", "--response_template", "<|start_header_id|>assistant<|end_header_id|>")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--hostname", "n1,n2", "--agent_hostname", "n3:8001", "--num_tasks", "8", "--gpus", "4", "--seed", "7"),
        (*RELEASED, "--gpus", "0", "--agent_prompt_path", "mini_agent.txt", "--launcher", "deepspeed --hostfile h"),
        ("--methods", "sweet", "--launcher", "deepspeed --hostfile hosts", "--gpus", "8"),
    ],
)
def test_every_command_of_the_dry_run_is_one_that_its_script_takes(options, monkeypatch):
    commands = dry_run(*options)
    assert len(commands) > 5
    for words in commands:
        parsed(words, monkeypatch)


def test_the_dry_run_chains_the_steps_of_the_method(monkeypatch):
    settings = [parsed(words, monkeypatch) for words in dry_run("--hostname", "n1", "--output", "/out")]
    scripts = [Path(next(word for word in words if word.endswith(".py"))).stem for words in dry_run()]
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


@pytest.mark.parametrize(
    "options", [("--unknown", "1"), ("--hostname",), ("--methods", "ppo"), ("stray",), ("--gpus", "0")]
)
def test_a_bad_option_is_one_message_and_exit_code_2(options):
    done = subprocess.run(
        ["bash", "scripts/run_backend.sh", *options], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and done.stderr.startswith("run_backend.sh: ") and done.stderr.count("\n") == 1


def test_every_command_in_the_readme_is_one_that_its_script_takes(monkeypatch):
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    commands = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    scripts = [shlex.split(line, comments=True) for line in commands if "scripts/" in line and ".py" in line]
    assert len(scripts) > 10
    for words in scripts:
        parsed(words, monkeypatch)


def test_the_readmes_own_domain_plays_and_pairs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (source,) = (block for block in blocks if "def main(" in block)
    domain: dict = {}
    exec(source, domain)
    domain["main"](str(tmp_path))
    played = read_records(tmp_path / "rewarded.jsonl", Trajectory)
    assert len(played) == 8 and {trajectory.reward for trajectory in played} <= {0.0, 1.0}
    assert all(trajectory.ending in ("answered", "turn_limit") for trajectory in played)
    played[0].answer = f"{played[0].task.ground_truth}."
    assert domain["grade"](played[0]) == 1.0


@pytest.mark.slow
def test_the_pipeline_runs_on_the_tiny_agent_and_runs_again_without_work(tmp_path):
    tasks = ["python", "scripts/make_mini_tasks.py", "--num_train", "16", "--num_test", "4"]
    agent = shutil.copytree(ROOT / "sweet_rl" / "models" / "packaged" / "mini", tmp_path / "agent")
    run = ["bash", "scripts/run_backend.sh", "--agent_model", str(agent), "--env_model", "mini"]
    run += ["--agent_prompt_path", "mini_agent.txt", "--gpus", "0", "--engine", "transformers"]
    run += ["--train_tasks", str(tmp_path / "train.jsonl"), "--test_tasks", str(tmp_path / "test.jsonl")]
    run += ["--output", str(tmp_path / "out")]
    this_python = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([*tasks, "--output_dir", str(tmp_path)], cwd=ROOT, env=this_python, check=True)
    subprocess.run(run, cwd=ROOT, env=this_python, check=True)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [row["name"] for row in results["runs"]] == [
        *("zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL")
    ]
    run += ["--methods", "sweet"]
    again = subprocess.run(run, cwd=ROOT, env=this_python, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("already complete") == 11  # every step but the table
