"""Calculated memory and disk against what a machine has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sweet_rl.errors import UserError
from sweet_rl.preflight import sizes
from sweet_rl.preflight.gpus import Gpus
from sweet_rl.preflight.models import Model
from sweet_rl.preflight.run import _divided, _training_settings, processes_of
from sweet_rl.preflight.sizes import PlannedTraining, check_disk, check_engine, check_ranking, check_training
from sweet_rl.training.memory import LLAMA_8B, LLAMA_70B, TrainingSetup, training_memory

AGENT, HUMAN = Model("8B", LLAMA_8B), Model("70B", LLAMA_70B)


def gpus(count: int, total: float = 80e9, taken: float = 0) -> Gpus:
    return Gpus([int(total - taken)] * count, [int(total)] * count)


def planned(flags: str = "") -> PlannedTraining:
    """The paper's critic, under ZeRO-3 unless the flags say another stage."""
    config, flags = "paper/backend/critic.yaml", flags if "--zero_stage" in flags else f"--zero_stage 3 {flags}"
    how, data, _ = _training_settings(config, flags)
    return PlannedTraining(config, AGENT, how, data)


def test_a_training_of_the_paper_fits_eight_gpus_and_not_one():
    finding = check_training(planned(), gpus(8), 8)
    need = training_memory(LLAMA_8B, TrainingSetup(2 * 8192, 8, zero_stage=3)).total / 1e9
    assert finding.state == "ok" and f"{need:.1f} GB a GPU, calculated, of 80.0 GB free" in finding.text
    finding = check_training(planned(), gpus(1), 1)
    assert finding.state == "FAILED" and "--lora_rank" in finding.text
    assert check_training(planned(flags="--lora_rank 16 --zero_stage none"), gpus(1), 1).state == "ok"


def test_memory_that_another_process_holds_is_named():
    assert check_training(planned(), gpus(8, taken=1e9), 8).state == "ok"
    finding = check_training(planned(), gpus(8, taken=60e9), 8)
    assert finding.state == "FAILED" and "other processes hold 60.0 GB" in finding.text
    assert "nvidia-smi" in check_engine("dialogues", AGENT, gpus(8, taken=70e9), True).text


def test_an_engine_needs_room_for_a_dialogue_beside_the_weights():
    assert check_engine("the human", HUMAN, gpus(4), True).state == "ok"
    assert check_engine("the human", HUMAN, gpus(2), True).state == "FAILED"
    assert check_engine("dialogues", AGENT, gpus(8), False).state == "ok"
    assert check_engine("dialogues", AGENT, gpus(1, 16e9), True).state == "FAILED"


def test_two_engines_on_one_gpu_have_a_share_each():
    assert check_engine("the human", AGENT, gpus(1, 44e9), True, share=0.5).state == "ok"
    assert check_engine("the human", AGENT, gpus(1, 44e9), True, share=0.4).state == "FAILED"


def test_a_critic_and_its_reference_that_do_not_fit_together_are_a_warning_and_one_that_fits_nowhere_a_failure():
    assert check_ranking([AGENT, AGENT], gpus(1)).state == "ok"
    assert check_ranking([AGENT, AGENT], gpus(1, 24e9)).state == "FAILED"
    assert check_ranking([HUMAN], gpus(1)).state == "FAILED"


@pytest.mark.parametrize("flags, gigabytes", [
    ("", 2 * 112.4 + 16.1),
    ("--zero_stage 2", 2 * 128.5 + 16.1),
    ("--keep best --zero_stage 3", 3 * 112.4 + 16.1),
    ("--zero_stage none", 2 * 96.4 + 16.1),
    ("--lora_rank 16", 2 * 0.5 + 16.1),
])  # fmt: skip
def test_the_disk_holds_the_checkpoints_that_are_kept_and_the_model(flags, gigabytes, monkeypatch, tmp_path):
    training = [planned(flags=flags)]
    for free, state in ((gigabytes - 1, "FAILED"), (gigabytes + 1, "ok")):
        monkeypatch.setattr(sizes.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free * 1e9))
        (finding,) = check_disk(str(tmp_path / "runs" / "new"), training, [AGENT], 8)
        assert finding.state == state, finding


def test_trainings_that_run_at_the_same_time_have_checkpoints_each(monkeypatch, tmp_path):
    trainings = [planned(), planned(flags="--zero_stage 2"), planned(flags="--lora_rank 16")]
    sizes_of = {1: 2 * 16, 2: 2 * 16 + 2 * 14}
    for at_once, each in sizes_of.items():
        need = (each + 3 * 2) * LLAMA_8B.parameters
        for free, state in ((need - 1, "FAILED"), (need, "ok")):
            monkeypatch.setattr(sizes.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
            (finding,) = check_disk(str(tmp_path), trainings, [AGENT], 8, at_once)
            assert finding.state == state, finding


def test_what_an_earlier_start_wrote_counts_as_room_and_downloads_need_more(monkeypatch, tmp_path):
    monkeypatch.setattr(sizes.shutil, "disk_usage", lambda _: SimpleNamespace(free=30 * LLAMA_8B.parameters - 1e6))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    training = [planned()]
    assert next(check_disk(str(tmp_path), training, [AGENT], 8)).state == "FAILED"
    (tmp_path / "critic").mkdir()
    (tmp_path / "critic" / "model.safetensors").write_bytes(bytes(2_000_000))
    assert next(check_disk(str(tmp_path), training, [AGENT], 8)).state == "ok"
    (finding,) = check_disk(str(tmp_path), training, [Model("8B", LLAMA_8B, 16 * 10**9)], 8)
    assert finding.state == "FAILED" and "models to download" in finding.text


def test_the_human_takes_the_gpus_that_are_named_and_the_agent_the_others(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    three = Gpus([1, 2, 3], [4, 5, 6])
    assert _divided(three, "4,6", shared=False) == (Gpus([1, 3], [4, 6]), Gpus([2], [5]))
    assert _divided(three, "4,5,6", shared=True) == (three, three)
    with pytest.raises(UserError, match="--human_share"):
        _divided(three, "4,5,6", shared=False)
    with pytest.raises(UserError, match="names 0; torch can use 4, 5, 6"):
        _divided(three, "0", shared=False)


@pytest.mark.parametrize("launch, expected", [
    ("python", (1, 1)),
    ("torchrun --nproc_per_node 8", (8, 8)),
    ("torchrun --nnodes=2 --nproc-per-node=gpu", (4, 8)),
    ("deepspeed", (4, 4)),
    ("deepspeed --num_gpus 2", (2, 2)),
    ("deepspeed --hostfile HOSTS", (8, 12)),
])  # fmt: skip
def test_the_processes_of_a_launcher(launch, expected, tmp_path):
    (tmp_path / "hosts").write_text("node1 slots=8\nnode2 slots=4\n")
    assert processes_of(launch.replace("HOSTS", str(tmp_path / "hosts")), gpus=4) == expected
