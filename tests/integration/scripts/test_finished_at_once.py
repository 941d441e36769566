"""A finished step answers before torch is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.command_line import ROOT, call, process, write_rows
from tests.support.dialogues import graded

WITHOUT_TORCH = """
import runpy, sys
sys.argv = sys.argv[1:]
sys.modules["torch"] = sys.modules["transformers"] = None  # an import of them fails
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("finished")
    write_rows(place / "graded.jsonl", graded())
    flags = {"input_path": place / "graded.jsonl", "output_path": place / "again.jsonl", "tokenizer": "mini"}
    hinted = {"ground_truth_preference_path": place / "pairs.jsonl"}
    assert call("evaluate_code.py", **flags, **hinted, task_type="mini", sandbox="none").code == 0
    return place


TRAINING = {"pretrain": "mini", "max_samples": 2, "train_batch_size": 2, "max_epochs": 1}
STEPS = {
    "train_dpo.py": TRAINING | {"dataset": "pairs.jsonl", "save_path": "critic"},
    "train_sft.py": TRAINING | {"dataset": "graded.jsonl", "save_path": "sft"},
    "train_value.py": TRAINING | {"dataset": "pairs.jsonl", "save_path": "value"},
    "sample_best_of_n.py": {
        "model_id": "mini", "input_path": "graded.jsonl", "output_path": "candidates.jsonl", "best_of_n": 2,
        "max_tokens": 4,
    },
}  # fmt: skip


@pytest.mark.parametrize("script", STEPS)
def test_a_finished_step_needs_no_torch(script, place):
    paths = ("dataset", "save_path", "input_path", "output_path")
    flags = {name: place / value if name in paths else value for name, value in STEPS[script].items()}
    made = call(script, **flags)
    assert made.code == 0, made.err
    words, environment = process(script, **flags)
    command = [sys.executable, "-c", WITHOUT_TORCH, *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0 and "already complete" in done.stdout, done.stderr
