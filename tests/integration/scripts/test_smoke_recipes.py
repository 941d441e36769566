"""The recipe for the paper's backend with --smoke, whole: dialogues, trainings, ranking, comparison.

That of web pages is tested with the agent that it takes, in `lab/pages/tests`. That of one GPU runs the same steps with
configs/one_gpu (`test_recipes_on_gpus.py`), whose trainings are tested in `test_adapters_and_evaluation.py`.
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


def test_a_smoke_run_makes_every_output_with_the_settings_of_the_real_run(tmp_path, monkeypatch):
    # The reference of the paper, against which an untrained critic has no order.
    out = smoke("run_backend", tmp_path, monkeypatch, REFERENCE="seed")
    played = read_rows(out / "trajectories.jsonl")
    assert len(played) == 3 * 8 and {row["human"]["name"] for row in played} == {"mini-human"}
    settings = {name: manifest(out / name / "manifest.json")["settings"] for name in MODELS}
    assert {(one["zero_stage"], one["lora_rank"], one["bf16"]) for one in settings.values()} == {(2, None, True)}
    assert {name: one["normalize"] for name, one in settings.items() if name != "rft"} == {
        "critic": "turn", "dpo": "none", "sweet": "none", "sweet_pmi": "none",
    }  # fmt: skip
    ranked = manifest(out / "ranked.jsonl.manifest.json")["settings"]
    assert (ranked["reference"], ranked["reference_model_id"]) == ("seed", "mini")
    assert len(json.loads((out / "results.json").read_text())["runs"]) == 5
    logs = "".join(path.read_text() for path in (out / "logs").glob("*.log"))
    assert logs.count("CPU threads") == 5 and "--nproc_per_node 2" in logs


def smoke(recipe: str, folder: Path, monkeypatch, **variables: str) -> Path:
    """Run a recipe with --smoke; return the folder of its outputs."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with warm_programs(folder) as programs:
        environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "OUT": str(folder / "out"), **variables}
        command = ["bash", ROOT / "scripts" / f"{recipe}.sh", "--smoke"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"


def manifest(path: Path) -> dict:
    return json.loads(path.read_text())
