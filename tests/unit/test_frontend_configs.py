"""The paper's frontend settings, file by file, and the commands of run_frontend.sh."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from sweet_rl.cli import parse_flags
from tests.unit.test_paper_configs import LLAMA_8B, PREFERENCES, TRAINING, main_of, parsed

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "configs" / "paper" / "frontend"
DIALOGUES = {
    "env_model": "Qwen/Qwen2-VL-72B-Instruct", "task_type": "html", "max_turns": 10, "temperature": 1.0,
    "max_tokens": 1024, "env_temperature": 0.0, "env_max_chars": 1000,
}  # fmt: skip
FIGURES = {
    "collection": DIALOGUES | {"agent_model": LLAMA_8B, "best_of_n": 6, "num_tasks": 1000},
    "evaluation": DIALOGUES | {"best_of_n": 1, "num_tasks": 500},
    "grading": {"image_encoder": "openai/clip-vit-base-patch32", "min_gap": 0.1},
    "rejection_fine_tuning": TRAINING | {"train_batch_size": 32, "max_epochs": 8, "max_len": 16384},
    "multi_turn_dpo": PREFERENCES | {"normalize": "none", "max_epochs": 8, "max_len": 16384},
    "critic": PREFERENCES | {"normalize": "turn", "max_epochs": 8, "max_len": 8192},
    "value_critic": TRAINING
    | {"pretrain": "Qwen/Qwen2-VL-7B-Instruct", "reference_picture": True, "objective": "preference", "min_gap": 0.1}
    | {"beta": 0.1, "train_batch_size": 8, "max_epochs": 8, "max_len": 8192},
    "sampling": {
        "model_id": LLAMA_8B, "best_of_n": 16, "data_fraction": 0.1, "temperature": 1.0, "max_tokens": 1024,
    },
    "ranking": {"reference": "seed", "reference_model_id": LLAMA_8B, "normalize": "turn", "bf16": True},
    "value_ranking": {"critic_type": "value", "bf16": True},
    "turn_pairs": {"num_pairs": 4},
    "actor": PREFERENCES | {"normalize": "none", "max_epochs": 1, "max_len": 16384},
}  # fmt: skip
OURS = {  # what the paper does not say
    "collection": {"env_max_tokens"}, "evaluation": {"env_max_tokens"}, "value_critic": {"max_pixels"},
    "rejection_fine_tuning": {"min_reward"},
}  # fmt: skip
SCRIPTS = {
    "collection": "simulate_interactions", "evaluation": "simulate_interactions", "grading": "evaluate_html",
    "rejection_fine_tuning": "train_sft", "multi_turn_dpo": "train_dpo", "critic": "train_dpo",
    "value_critic": "train_value", "sampling": "sample_best_of_n", "ranking": "rank_best_of_n",
    "value_ranking": "rank_best_of_n", "turn_pairs": "generate_random_pairs_from_ranks", "actor": "train_dpo",
}  # fmt: skip
PATHS = {
    "simulate_interactions": ["--agent_model", "m", "--input_path", "a", "--output_path", "b"],
    "evaluate_html": ["--output_path", "b"],
    "rank_best_of_n": ["--model_id", "c", "--input_path", "a", "--output_path", "b"],
    "generate_random_pairs_from_ranks": ["--input_path", "a", "--output_path", "b"],
    "sample_best_of_n": [],
}


def test_every_file_is_held_to_the_papers_figures():
    assert {path.stem for path in PAPER.glob("*.yaml")} == FIGURES.keys() == SCRIPTS.keys()


@pytest.mark.parametrize("name", FIGURES)
def test_settings_are_the_papers_and_their_script_takes_them(name):
    paths = PATHS.get(SCRIPTS[name], ["--dataset", "a", "--save_path", "b"])
    if name == "collection":
        paths = paths[2:]
    settings = parse_flags(main_of(SCRIPTS[name]), [*paths, "--config", str(PAPER / f"{name}.yaml")])
    assert {key: settings[key] for key in FIGURES[name]} == FIGURES[name]
    unnamed = yaml.safe_load((PAPER / f"{name}.yaml").read_text()).keys() - FIGURES[name].keys()
    assert unnamed <= {"micro_train_batch_size", "gradient_checkpointing"} | OURS.get(name, set())


def dry_run(*options: str) -> list[list[str]]:
    command = ["bash", "scripts/run_frontend.sh", "--dry_run", *options]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [shlex.split(line[2:]) for line in output.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--critic", "log_ratio", "--hostname", "n1,n2", "--agent_hostname", "n3:8001", "--num_tasks", "8"),
        ("--env_model", "designer", "--gpus", "0", "--image_encoder", "efficientnet-lite0", "--methods", "sweet"),
    ],
)
def test_every_command_of_the_dry_run_is_one_that_its_script_takes(options, monkeypatch):
    commands = dry_run(*options)
    assert len(commands) > 5
    for words in commands:
        parsed(words, monkeypatch)


def test_the_dry_run_chains_the_steps_of_the_method(monkeypatch):
    commands = [parsed(words, monkeypatch) for words in dry_run("--methods", "sweet", "--output", "/out")]
    collect, grade, _, _, critic, candidates, ranking, turn_pairs, actor, test, graded, results = commands
    assert (collect["task_type"], grade["input_path"]) == ("html", collect["output_path"])
    assert critic["dataset"] == candidates["input_path"] == grade["output_path"]
    assert (ranking["model_id"], ranking["input_path"]) == (critic["save_path"], candidates["output_path"])
    assert (turn_pairs["input_path"], actor["dataset"]) == (ranking["output_path"], turn_pairs["output_path"])
    assert (test["agent_model"], graded["input_path"]) == (actor["save_path"], test["output_path"])
    assert graded["image_encoder"] == grade["image_encoder"] and graded["output_path"] in results["runs"]


@pytest.mark.parametrize("options", [("--critic", "judge"), ("--methods", "ppo"), ("--unknown", "1"), ("--gpus", "0")])
def test_a_bad_option_is_one_message_and_exit_code_2(options):
    done = subprocess.run(
        ["bash", "scripts/run_frontend.sh", *options], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and done.stderr.startswith("run_frontend.sh: ") and done.stderr.count("\n") == 1
