"""Every file of settings is one that its script takes; those in configs/paper have the figures of the paper."""

from __future__ import annotations

import json
import re
import runpy
from functools import cache

import pytest
import yaml

from sweet_rl.runs.cli import parse_flags
from tests.support.command_line import ROOT

PAPER = ROOT / "configs" / "paper"
LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
DIALOGUES = {
    "env_model": LLAMA_70B, "task_type": "code", "max_turns": 10, "temperature": 1.0, "max_tokens": 1024,
    "env_temperature": 0.0, "env_max_chars": 400,
}  # fmt: skip
TRAINING = {"pretrain": LLAMA_8B, "learning_rate": 2e-7, "bf16": True}
PREFERENCES = TRAINING | {"beta": 0.1, "nll_loss_coef": 0.01, "train_batch_size": 8}
VALUES = TRAINING | {"train_batch_size": 8, "max_epochs": 4, "max_len": 8192}
BACKEND = {
    "collection": DIALOGUES | {"agent_model": LLAMA_8B, "best_of_n": 3, "num_tasks": 5000},
    "evaluation": DIALOGUES | {"best_of_n": 1, "num_tasks": 1000},
    "rejection_fine_tuning": TRAINING | {"train_batch_size": 32, "max_epochs": 4, "max_len": 16384, "min_reward": 1.0},
    "multi_turn_dpo": PREFERENCES | {"normalize": "none", "max_epochs": 4, "max_len": 16384},
    "critic": PREFERENCES | {"normalize": "turn", "max_epochs": 4, "max_len": 8192},
    "sampling": {"model_id": LLAMA_8B, "best_of_n": 16, "data_fraction": 0.1, "temperature": 1.0, "max_tokens": 1024},
    "ranking": {"reference": "sampled", "normalize": "turn", "bf16": True},
    "pmi_ranking": {"critic_type": "pmi", "normalize": "none"},
    "turn_pairs": {"num_pairs": 4},
    "actor": PREFERENCES | {"normalize": "none", "max_epochs": 1, "max_len": 16384},
    "single_turn": DIALOGUES
    | {"best_of_n": 1, "num_tasks": 1000, "max_turns": 1, "agent_prompt_path": "code_agent_single_turn.txt"},
    "value_critic": VALUES | {"objective": "preference", "beta": 0.1},
    "value_function": VALUES | {"objective": "classification"},
    "value_ranking": {"critic_type": "value", "bf16": True},
}
PAGE_DIALOGUES = DIALOGUES | {"env_model": "Qwen/Qwen2-VL-72B-Instruct", "task_type": "html", "env_max_chars": 1000}
FRONTEND = {
    "collection": PAGE_DIALOGUES | {"agent_model": LLAMA_8B, "best_of_n": 6, "num_tasks": 1000},
    "evaluation": PAGE_DIALOGUES | {"best_of_n": 1, "num_tasks": 500},
    "grading": {"image_encoder": "openai/clip-vit-base-patch32", "min_gap": 0.1},
    "rejection_fine_tuning": TRAINING | {"train_batch_size": 32, "max_epochs": 8, "max_len": 16384},
    "multi_turn_dpo": BACKEND["multi_turn_dpo"] | {"max_epochs": 8},
    "critic": BACKEND["critic"] | {"max_epochs": 8},
    "value_critic": BACKEND["value_critic"]
    | {"pretrain": "Qwen/Qwen2-VL-7B-Instruct", "reference_picture": True, "min_gap": 0.1, "max_epochs": 8},
    **{name: BACKEND[name] for name in ("sampling", "ranking", "value_ranking", "turn_pairs", "actor")},
}
CHECKPOINTS = {"save_minutes"}  # ours, of every training
OURS = {  # settings of frontend files that the paper does not give
    "value_critic": {"max_pixels"},
    "rejection_fine_tuning": {"min_reward"},
}  # fmt: skip
FIGURES = {
    (domain, name): figures
    for domain, files in (("backend", BACKEND), ("frontend", FRONTEND))
    for name, figures in files.items()
}
NO_SCRIPT = {"results.yaml"}
FILES = [path for folder in ("configs", "lab") for path in sorted((ROOT / folder).rglob("*.yaml"))]
OF_SCRIPTS = [path for path in FILES if path.name not in NO_SCRIPT and "tests" not in path.parts]


@cache
def main_of(path: str):
    return runpy.run_path(str(ROOT / path))["main"]


@pytest.mark.parametrize("path", OF_SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_script_that_the_first_line_names_takes_every_setting(path):
    script = re.match(r"# ((?:scripts|lab)/[\w/]+\.py)", path.read_text(encoding="utf-8"))
    assert script, "the first line of a file of settings names its script"
    assert parse_flags(main_of(script[1]), ["--config", str(path)])


def test_every_file_of_the_paper_is_held_to_its_figures():
    assert {(path.parent.name, path.stem) for path in PAPER.glob("*/*.yaml")} == FIGURES.keys()


@pytest.mark.parametrize(("domain", "name"), FIGURES)
def test_settings_are_the_papers(domain, name):
    figures = FIGURES[domain, name]
    settings = yaml.safe_load((PAPER / domain / f"{name}.yaml").read_text(encoding="utf-8"))
    settings = {key: value for key, value in settings.items() if key not in CHECKPOINTS}
    assert {key: settings[key] for key in figures} == figures
    ours = OURS.get(name, set()) if domain == "frontend" else set()
    assert settings.keys() - figures.keys() <= {"micro_train_batch_size", "gradient_checkpointing", "zero_stage"} | ours


def test_the_zero_configurations_are_of_their_stage():
    for stage in range(4):
        settings = json.loads((ROOT / "configs" / "deepspeed" / f"zero{stage}.json").read_text())
        assert settings["zero_optimization"]["stage"] == stage
