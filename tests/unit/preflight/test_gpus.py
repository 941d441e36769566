"""GPUs of the driver that torch cannot use, too few of them, attention that does not work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from sweet_rl.preflight.gpus import Gpus, check_attention, check_count, find_gpus


def program(folder: Path, name: str, text: str) -> None:
    """A stand-in for a program in a folder that is put onto PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def stand_ins(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a torch that finds no GPU")
def test_a_gpu_that_the_driver_has_and_torch_cannot_use_is_a_failure(stand_ins, monkeypatch):
    program(stand_ins, "nvidia-smi", 'echo "NVIDIA H100 80GB HBM3"; echo "NVIDIA H100 80GB HBM3"')
    gpus, (finding,) = find_gpus()
    assert not gpus and finding.state == "FAILED" and "has 2 (NVIDIA H100 80GB HBM3)" in finding.text
    assert "built for CPUs" in finding.text and "constraints-gpu.txt" in finding.text

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES" in str(find_gpus()[1][0])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (finding,) = find_gpus()[1]
    assert finding.state == "FAILED" and "driver for CUDA 13.0" in finding.text


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a torch that finds no GPU")
def test_a_driver_that_does_not_work_is_a_failure_and_no_driver_is_none(stand_ins):
    program(stand_ins, "nvidia-smi", 'echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18')
    (finding,) = find_gpus()[1]
    assert finding.state == "FAILED" and "library version mismatch" in finding.text
    (stand_ins / "nvidia-smi").write_text("#!/no/such/shell\n")
    assert find_gpus() == (Gpus(), [])


def test_processes_want_a_gpu_each_and_a_large_model_wants_any():
    eight = Gpus([80 * 10**9] * 8, [80 * 10**9] * 8)
    assert list(check_count(eight, 8, 8 * 10**9)) == []
    assert [one.state for one in check_count(eight, 9, 8 * 10**9)] == ["FAILED"]
    assert [one.state for one in check_count(Gpus(), 8, 8 * 10**9)] == ["FAILED"]
    assert [one.state for one in check_count(Gpus(), 2, 10**6)] == ["warning"]


def test_an_attention_that_was_asked_for_and_does_not_work_is_a_failure(monkeypatch):
    monkeypatch.setattr("sweet_rl.preflight.gpus.why_failed", lambda work, arguments, _: work(*arguments[0]))
    finding = check_attention(Gpus(), (4, 2, 16), "flex")  # which torch has no backward pass for on a CPU
    assert finding.state == "FAILED" and "CPU" in finding.text and "--attention masked" in finding.text
