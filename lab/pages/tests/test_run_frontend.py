"""scripts/run_frontend.sh on a CPU, whole: a tiny agent of pages, a scripted designer, a random critic that sees."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess

import pytest

from tests.support.command_line import ROOT, read_rows
from tests.support.tiny_vision import save_tiny_vision_model

PAGES = ROOT / "lab/pages"
WINDOW = f"--task_type {PAGES}/domain.py --page_width 480 --page_height 360"
VARIABLES = {
    "AGENT": str(PAGES / "agent"),
    "TRAIN_TASKS": str(PAGES / "tasks/train.jsonl"),
    "TEST_TASKS": str(PAGES / "tasks/test.jsonl"),
    "HUMAN": "designer",
    "HUMAN_SERVER": "none",
    "PROTOCOL": "sweet_rl",
    "NUM_TASKS": "2",
    "LAUNCH": "python",
    "PLAY_FLAGS": f"{WINDOW} --max_tokens 64 --max_turns 4",
    "GRADE_FLAGS": f"{WINDOW} --image_encoder efficientnet-lite0 --min_gap 0.001",
    "TRAIN_FLAGS": "--zero_stage none --bf16 false --max_epochs 1 --max_samples 4 --learning_rate 1e-3",
}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite_pytorch") is None or shutil.which("chromium") is None,
    reason="needs: pip install -e '.[frontend]', and Chromium",
)
def test_every_step_of_the_recipe_runs_with_the_papers_settings(tmp_path):
    critic, out = save_tiny_vision_model(tmp_path / "critic", context=8192), tmp_path / "out"
    environment = os.environ | VARIABLES | {"CRITIC": critic, "OUT": str(out), "CUDA_VISIBLE_DEVICES": ""}
    command = ["bash", str(ROOT / "scripts/run_frontend.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read_rows(out / "trajectories.jsonl")) == 6 * 2
    settings = {
        name: json.loads((out / name / "manifest.json").read_text())["settings"] for name in ("critic", "dpo", "sweet")
    }
    assert (settings["critic"]["objective"], settings["critic"]["reference_picture"]) == ("preference", True)
    assert all(settings[name]["beta"] == 0.1 and settings[name]["normalize"] == "none" for name in ("dpo", "sweet"))
    assert len(json.loads((out / "results.json").read_text())["runs"]) == 4
