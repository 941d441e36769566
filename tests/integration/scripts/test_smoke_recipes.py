"""The recipes for GPUs with --smoke, whole: dialogues, trainings, ranking, comparison.

That of web pages is tested with the agent that it takes, in `lab/pages/tests`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, read_rows
from tests.support.launched import ENVIRONMENT
from tests.support.warm_programs import warm_programs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("deepspeed") is None, reason="needs: pip install -e '.[test]'"
    ),
]  # fmt: skip
MODELS = ("critic", "rft", "dpo", "sweet", "sweet_pmi")


@pytest.mark.parametrize(("recipe", "processes"), [("run_backend", 2), ("run_one_gpu", 1)])
def test_a_smoke_run_makes_every_output_with_the_settings_of_the_real_run(recipe, processes, tmp_path, monkeypatch):
    seed = recipe == "run_backend"  # the reference of the paper, against which an untrained critic has no order
    more = {"REFERENCE": "seed"} if seed else {"TRAIN_FLAGS": "--nobf16", "RANK_FLAGS": "--nobf16"}  # slow on many CPUs
    out = smoke(recipe, tmp_path, monkeypatch, **more)
    played = read_rows(out / "trajectories.jsonl")
    assert len(played) == 3 * 8 and {row["human"]["name"] for row in played} == {"mini-human"}
    settings = {name: manifest(out / name / "manifest.json")["settings"] for name in MODELS}
    assert {(one["zero_stage"], one["lora_rank"], one["bf16"]) for one in settings.values()} == {
        (None, 16, False) if recipe == "run_one_gpu" else (2, None, True)
    }
    assert {name: one["normalize"] for name, one in settings.items() if name != "rft"} == {
        "critic": "turn", "dpo": "none", "sweet": "none", "sweet_pmi": "none",
    }  # fmt: skip
    ranked = manifest(out / "ranked.jsonl.manifest.json")["settings"]
    assert (ranked["reference"], ranked["reference_model_id"]) == (("seed", "mini") if seed else ("sampled", None))
    assert len(json.loads((out / "results.json").read_text())["runs"]) == 5
    logs = "".join(path.read_text() for path in (out / "logs").glob("*.log"))
    assert logs.count("CPU threads") == 5 and ("--nproc_per_node 2" in logs) == (processes == 2)


def smoke(recipe: str, folder: Path, monkeypatch, **variables: str) -> Path:
    """Run a recipe with --smoke; return the folder of its outputs."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with warm_programs(folder) as programs:
        environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "OUT": str(folder / "out"), **variables}
        command = ["bash", ROOT / "scripts" / f"{recipe}.sh", "--smoke"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"


def manifest(path: Path) -> dict:
    return json.loads(path.read_text())
