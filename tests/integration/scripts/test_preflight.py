"""preflight.py as a recipe calls it: a machine that is ready, and one that is not."""

from __future__ import annotations

import os

import pytest
import torch

from tests.support.api_server import MODEL, ApiServer, refusal
from tests.support.command_line import call, write_rows

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a torch that finds no GPU")


@pytest.mark.slow
def test_a_machine_that_is_ready_passes_every_check(tiny_chat_model, tmp_path):
    write_rows(tmp_path / "tasks.jsonl", [{"problem_description": "x", "ground_truth": "y"}])
    with ApiServer(lambda body: refusal(404, "no")) as server:
        done = call(
            "preflight.py", "--train_flags=--lora_rank 4", agent_model=tiny_chat_model, env_model=MODEL,
            hostname=server.url, output_dir=tmp_path, tasks=tmp_path / "tasks.jsonl",
            trainings="configs/mini/critic.yaml,configs/mini/actor.yaml", launch="torchrun --nproc_per_node 2",
            cpu=True,
        )  # fmt: skip
    lines = dict(line.split(": ", 2)[1::-1] for line in done.out.splitlines())
    assert set(lines.values()) == {"ok"} and done.code == 0, done
    assert lines.keys() == {"versions", "GPUs", "models", "tasks", "human", "disk"}


def test_a_machine_that_is_not_ready_fails_with_a_line_for_each_reason(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho NVIDIA H100 80GB HBM3\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = call("preflight.py", agent_model=tmp_path / "nothing", output_dir=tmp_path)
    failures = [line for line in done.out.splitlines() if line.startswith("FAILED: ")]
    assert done.code == 1 and len(failures) == 2 and "2 of the checks failed" in done.err, done
    assert "H100 80GB" in failures[0] and f"models: {tmp_path}/nothing" in failures[1]


@pytest.mark.parametrize("flag, words", [
    ("--train_flags=--lora_rankk 4", ["unknown setting --lora_rankk", "lora_rank"]),
    ("--trainings=configs/mini/nothing.yaml", ["configs/mini/nothing.yaml"]),
])  # fmt: skip
def test_a_setting_that_is_wrong_is_named(flag, words, tiny_chat_model, tmp_path):
    config = None if "trainings" in flag else "configs/mini/critic.yaml"
    done = call("preflight.py", flag, agent_model=tiny_chat_model, output_dir=tmp_path, trainings=config, cpu=True)
    assert done.code == 2 and all(word in done.err for word in words), done
