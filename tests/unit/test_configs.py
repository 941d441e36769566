"""The settings in configs/paper are those of the paper (the method, table 5), and their scripts take them."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path

import pytest
import yaml

from sweet_rl.cli import parse_flags

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "configs" / "paper"
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
BACKEND = {
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
BACKEND_SCRIPTS = {
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
PAGE_DIALOGUES = {
    "env_model": "Qwen/Qwen2-VL-72B-Instruct", "task_type": "html", "max_turns": 10, "temperature": 1.0,
    "max_tokens": 1024, "env_temperature": 0.0, "env_max_chars": 1000,
}  # fmt: skip
FRONTEND = {
    "collection": PAGE_DIALOGUES | {"agent_model": LLAMA_8B, "best_of_n": 6, "num_tasks": 1000},
    "evaluation": PAGE_DIALOGUES | {"best_of_n": 1, "num_tasks": 500},
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
OURS = {  # settings of frontend files that the paper does not give
    "collection": {"env_max_tokens"}, "evaluation": {"env_max_tokens"}, "value_critic": {"max_pixels"},
    "rejection_fine_tuning": {"min_reward"},
}  # fmt: skip
FRONTEND_SCRIPTS = {
    "collection": "simulate_interactions", "evaluation": "simulate_interactions", "grading": "evaluate_html",
    "rejection_fine_tuning": "train_sft", "multi_turn_dpo": "train_dpo", "critic": "train_dpo",
    "value_critic": "train_value", "sampling": "sample_best_of_n", "ranking": "rank_best_of_n",
    "value_ranking": "rank_best_of_n", "turn_pairs": "generate_random_pairs_from_ranks", "actor": "train_dpo",
}  # fmt: skip
PATHS = {
    "evaluate_html": ["--input_path", "a", "--output_path", "b"],
    "simulate_interactions": ["--input_path", "a", "--output_path", "b"],
    "train_sft": ["--dataset", "a", "--save_path", "b"],
    "train_dpo": ["--dataset", "a", "--save_path", "b"],
    "train_value": ["--dataset", "a", "--save_path", "b"],
    "sample_best_of_n": [],
    "rank_best_of_n": ["--model_id", "c", "--input_path", "a", "--output_path", "b"],
    "generate_random_pairs_from_ranks": ["--input_path", "a", "--output_path", "b"],
}
FILES = [("backend", name, script, BACKEND[name]) for name, script in BACKEND_SCRIPTS.items()]
FILES += [("frontend", name, script, FRONTEND[name]) for name, script in FRONTEND_SCRIPTS.items()]


@cache
def main_of(script: str):
    return runpy.run_path(str(ROOT / "scripts" / f"{script}.py"))["main"]


@pytest.mark.parametrize("domain, figures", [("backend", BACKEND), ("frontend", FRONTEND)])
def test_every_file_is_held_to_the_papers_figures(domain, figures):
    names = {name for kind, name, *_ in FILES if kind == domain}
    assert {path.stem for path in (PAPER / domain).glob("*.yaml")} == figures.keys() == names


@pytest.mark.parametrize("domain, name, script, figures", FILES, ids=[f"{file[0]}-{file[1]}" for file in FILES])
def test_settings_are_the_papers_and_their_script_takes_them(domain, name, script, figures):
    file = PAPER / domain / f"{name}.yaml"
    command = [*PATHS[script], "--config", str(file)]
    if "agent_model" not in figures and script == "simulate_interactions":
        command += ["--agent_model", "the trained policy"]
    settings = parse_flags(main_of(script), command)
    assert {key: settings[key] for key in figures} == figures
    unnamed = yaml.safe_load(file.read_text()).keys() - figures.keys()
    ours = OURS.get(name, set()) if domain == "frontend" else set()
    assert unnamed <= {"micro_train_batch_size", "gradient_checkpointing"} | ours  # speed, not result
