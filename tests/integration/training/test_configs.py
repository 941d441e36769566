"""Every configuration of the paper is one that its script takes, with the paper's figures."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import yaml

from sweet_rl.cli import flags_of

ROOT = Path(__file__).resolve().parents[3]
PAPER = ROOT / "configs" / "paper" / "backend"
SCRIPT_OF = {
    "actor": "train_dpo",
    "collection": "simulate_interactions",
    "critic": "train_dpo",
    "evaluation": "simulate_interactions",
    "multi_turn_dpo": "train_dpo",
    "ranking": "rank_best_of_n",
    "rejection_fine_tuning": "train_sft",
    "sampling": "sample_best_of_n",
    "turn_pairs": "generate_random_pairs_from_ranks",
}
TABLE_5 = {  # beta, NLL, batch, epochs, max length
    "rejection_fine_tuning": (None, None, 32, 4, 16384),
    "multi_turn_dpo": (0.1, 0.01, 8, 4, 16384),
    "critic": (0.1, 0.01, 8, 4, 8192),
    "actor": (0.1, 0.01, 8, 1, 16384),
}


def config(name: str) -> dict:
    return yaml.safe_load((PAPER / f"{name}.yaml").read_text())


@pytest.mark.parametrize("name", sorted(SCRIPT_OF))
def test_the_script_knows_every_setting(name):
    main = runpy.run_path(str(ROOT / "scripts" / f"{SCRIPT_OF[name]}.py"))["main"]
    assert set(config(name)) <= flags_of(main).keys()


@pytest.mark.parametrize("name", sorted(TABLE_5))
def test_training_has_the_figures_of_table_5(name):
    keys = ("beta", "nll_loss_coef", "train_batch_size", "max_epochs", "max_len")
    settings = config(name)
    assert tuple(settings.get(key) for key in keys) == TABLE_5[name]
    assert (settings["learning_rate"], settings["bf16"], settings["zero_stage"]) == (2e-7, True, 3)


def test_the_zero_configurations_are_of_their_stage():
    for stage in range(4):
        settings = json.loads((ROOT / "configs" / "deepspeed" / f"zero{stage}.json").read_text())
        assert settings["zero_optimization"]["stage"] == stage
