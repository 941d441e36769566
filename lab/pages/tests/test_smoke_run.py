"""The recipe of web pages with --smoke, whole: dialogues, trainings with pictures, ranking, comparison."""

import json

import pytest

from tests.integration.scripts.test_smoke_recipes import manifest, smoke
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import read_rows


def test_a_smoke_run_of_pages_makes_every_output(tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs: pip install -e '.[frontend]'")
    pytest.importorskip("deepspeed", reason="needs: pip install -e '.[test]'")
    renderer_or_skip(workers=1).close()
    out = smoke("run_frontend", tmp_path, monkeypatch)
    assert {row["human"]["name"] for row in read_rows(out / "trajectories.jsonl")} == {"designer"}
    critic = manifest(out / "critic" / "manifest.json")["settings"]
    assert critic["reference_picture"] and critic["zero_stage"] == 2 and critic["bf16"]
    assert len(json.loads((out / "results.json").read_text())["runs"]) == 4
