"""The flags of every script: documented, once each, and with the names of the release."""

from __future__ import annotations

import runpy
from functools import cache

import pytest

from sweet_rl.cli import flags_of
from sweet_rl.cli.groups import argument_docs
from tests.support.command_line import ROOT

PROGRAMS = sorted(path for folder in ("scripts", "visualizers") for path in (ROOT / folder).glob("[a-z]*.py"))
RELEASED = {
    "simulate_interactions.py": "agent_model hostname task_type num_tasks input_path output_path env_model best_of_n",
    "evaluate_code.py": "k ground_truth_preference_path preference_path data_path agent_model",
    "sample_best_of_n.py": "data_path save_path data_fraction model_id",
    "rank_best_of_n.py": "model_id input_path output_path no_prompt",
    "generate_random_pairs_from_ranks.py": "input_path output_path num_pairs",
    "train_dpo.py": "save_path save_steps logging_steps train_batch_size micro_train_batch_size pretrain bf16 dataset "
    "max_epochs max_len zero_stage learning_rate beta gradient_checkpointing response_template mean_log_prob "
    "nll_loss_coef",
}


@cache
def main_of(path):
    return runpy.run_path(str(path))["main"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_flag_has_a_help_text_and_every_text_a_flag(path):
    main = main_of(path)
    flags = flags_of(main)
    assert [flag.name for flag in flags.values() if not flag.help] == []
    own = {flag.name for flag in flags.values() if flag.field is None}
    assert argument_docs(main.__doc__).keys() <= own, "a text that belongs to the docstring of a group"


@pytest.mark.parametrize("name", RELEASED)
def test_the_names_of_the_release_are_flags(name):
    flags = flags_of(main_of(ROOT / "scripts" / name)).values()
    names = {word for flag in flags for word in (flag.name, *flag.aliases)}
    assert set(RELEASED[name].split()) <= names
